package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// tokenWayTrials are those of a token that is asked for when something comes between.
func tokenWayTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"two services wait for one holder of their owner's refresh token":          (*trial).tokenForTwo,
		"a service whose owner takes his refresh token back waits for another one": (*trial).tokenTakenBack,
		"a member that needs a token twice while no control plane looks gets one":  (*trial).tokenAskedAnew,
		"a member whose tokens are over at once gets others":                       (*trial).tokenShort,
		"a volume whose owner has sent no token is kept, and that is told":         (*trial).tokenVolumeKept,
		"a volume whose owner's token comes late is deleted when it does":          (*trial).tokenVolumeLate,
		"a bucket of one user is made when his owner sends a token":                (*trial).tokenIsolated,
		"a service that is taken over leaves its refresh token as it is":           (*trial).tokenTakenOver,
		"a member that wants another token all the time is heeded now and then":    (*trial).tokenRestless,
	}
}

// tokenForTwo has the service vanish from two clusters while the holder's is away.
func (t *trial) tokenForTwo() error {
	other := *t
	other.cluster = t.player.w.Cluster(clusterID(t.player.plan.Shape.Clusters - 1))
	other.sim = other.cluster.Sim
	err := t.owned(t.refreshed())
	holder := t.player.w.Cluster(t.player.users.clusters[0])
	holder.Kill()
	other.sim.RemoveService(t.name)
	err = errors.Join(err, t.vanishes())
	holder.Start()
	return errors.Join(err, t.again(), other.again())
}

// tokenTakenBack has the owner delete the refresh token while a member waits for its holder.
func (t *trial) tokenTakenBack() error {
	back, err := t.holderAway()
	f, found := t.federation()
	if err = errors.Join(err, found); err != nil {
		back()
		return err
	}
	ask := record.TokenAskKey(t.player.users.clusters[0], f.UID, t.cluster.ID)
	_, asked := t.player.w.Store.Get(t.ctx, ask)
	_, taken := t.player.api(t.owner()).DeleteRefreshToken(t.ctx, t.name, "")
	err = errors.Join(err, asked, taken, t.await("nobody is asked any more", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, ask)
		return errors.Is(err, store.ErrNotFound)
	}), t.isTold(record.ReasonNeedsUserToken))
	back()
	_, given := t.player.api(t.owner()).SetRefreshToken(t.ctx, t.name, t.refreshed(), client.RefreshTokenOptions{})
	return errors.Join(err, given, t.again())
}

// isTold waits until the API says why the replica on the trial's cluster is as it is.
func (t *trial) isTold(reason record.Reason) error {
	if err := t.await(fmt.Sprintf("it is told: %s", reason), func() bool { return t.reason() == reason }); err != nil {
		return fmt.Errorf("%w; it is %q", err, t.reason())
	}
	return nil
}

// tokenAskedAnew has somebody make the service again as it was, for a while in which control planes are away from etcd:
// its syncer asks for another token than the one that the holder gets from a slow issuer.
func (t *trial) tokenAskedAnew() error {
	err := t.owned(t.refreshed())
	f, found := t.federation()
	if err = errors.Join(err, found); err != nil {
		return err
	}
	was, _ := t.sim.Service(t.name)
	holder := t.player.w.Cluster(t.player.users.clusters[0])
	slow := t.player.net.AddRule(holder.Host(), hostIssuer, wire.Rule{Delay: time.Minute})
	t.sim.RemoveService(t.name)
	err = awaitEach(seenLate/10, "the holder is asked", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, record.TokenAskKey(holder.ID, f.UID, t.cluster.ID))
		return err == nil
	})
	mend := t.player.net.Cut("control-plane-*", world.HostEtcd)
	err = errors.Join(err, t.sim.PutService(string(was.JSON)))
	<-time.After(trialLate)
	err = errors.Join(err, t.vanishes())
	mend()
	slow()
	return errors.Join(err, t.again())
}

// shortToken is a little longer than a token must be good to be used.
const shortToken = 12 * time.Second

// tokenShort has OSCAR refuse the service until each token is over.
func (t *trial) tokenShort() error {
	t.player.people.issuer.Grant(issuer.Grants{Lifetime: shortToken})
	err := errors.Join(t.owned(t.refreshed()), t.fails(oscarsim.OpCreate))
	t.sim.RemoveService(t.name)
	<-time.After(trialLate)
	t.sim.ClearFaults()
	err = errors.Join(err, t.again())
	t.player.people.issuer.Grant(issuer.Grants{Rotate: t.player.plan.Seed%2 == 0, Lifetime: issued})
	return err
}

// tokenVolumeKept has an administrator delete a service with its data, without the refresh token of its owner.
func (t *trial) tokenVolumeKept() error {
	there, err := t.ownedVolume()
	_, taken := t.api.DeleteRefreshToken(t.ctx, t.name, "")
	err = errors.Join(err, taken)
	done, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete", Wait: trialSoon})
	if err = errors.Join(err, deleted, t.nowhere()); err != nil {
		return err
	}
	if !there() {
		err = errors.New("its volume is gone")
	}
	for _, r := range done.Replicas {
		if f := r.Volume; f == nil || f.Fate != string(record.BucketKept) || !strings.Contains(f.Why, string(record.ReasonNeedsUserToken)) {
			err = errors.Join(err, fmt.Errorf("what became of the volume is told as %+v", f))
		}
	}
	return err
}

// tokenVolumeLate has an administrator delete a service with its data. Its issuer is slow: the service is gone when a token
// of the owner comes.
func (t *trial) tokenVolumeLate() error {
	there, err := t.ownedVolume()
	slow := t.player.net.AddRule(t.cluster.Host(), hostIssuer, wire.Rule{Delay: 2 * time.Second})
	defer slow()
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete"})
	err = errors.Join(err, deleted, awaitEach(time.Second, "the service is gone", func() bool { return t.gone(t.sim) }))
	if !there() {
		err = errors.Join(err, errors.New("its volume is gone before a token of the owner can be there"))
	}
	return errors.Join(err, t.await("its volume is gone", func() bool { return !there() }))
}

// isolated is the service, with a bucket for each of some users.
func (t *trial) isolated(users ...string) *oscar.Service {
	s := t.alone(t.name, "first")
	s.Visibility, s.IsolationLevel, s.AllowedUsers = oscar.VisibilityRestricted, oscar.IsolationUser, users
	return s
}

// tokenIsolated has an administrator add a user, and somebody take the user's bucket from the service. OSCAR makes such
// buckets for their owner alone.
func (t *trial) tokenIsolated() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	first, second := "first-user-of-"+t.name, "second-user-of-"+t.name
	bucket := func() bool { _, has := t.sim.Bucket(t.name + "-" + second[:10]); return has }
	owner := func() *client.Client { return t.player.api(t.owner()) }
	t.player.renew(t.owner(), tokenOver)
	_, err := owner().CreateService(t.ctx, t.isolated(first), client.CreateOptions{Wait: trialLate})
	<-time.After(past)
	_, added := t.api.ChangeService(t.ctx, t.isolated(first, second), client.ChangeOptions{Async: true})
	err = errors.Join(err, added, t.isTold(record.ReasonNeedsUserToken))
	if bucket() {
		err = errors.Join(err, errors.New("the bucket was made without the owner"))
	}
	t.player.renew(t.owner(), tokenOver)
	_, sent := owner().ChangeService(t.ctx, t.isolated(first, second), client.ChangeOptions{Async: true})
	err = errors.Join(err, sent, t.await("the bucket is made", bucket), t.phase(record.PhaseReady))
	<-time.After(past)
	_ = t.changeDirectlyTo(func(fields map[string]any) { // OSCAR does it, and says no
		fields["isolation_level"] = strings.ToLower(oscar.IsolationUser) // else it does not change what is another's
		delete(fields, "bucket_list")
	})
	if bucket() {
		err = errors.Join(err, errors.New("the bucket was not taken away"))
	}
	err = errors.Join(err, t.isTold(record.ReasonNeedsUserToken))
	t.player.renew(t.owner(), tokenLife)
	_, sent = owner().ChangeService(t.ctx, t.isolated(first, second), client.ChangeOptions{Async: true})
	return errors.Join(err, sent, t.await("the bucket is made again", bucket), t.phase(record.PhaseReady))
}

// tokenTakenOver makes a service, alone in its federation, a member of another one of the same owner, who has given both
// the same refresh token.
func (t *trial) tokenTakenOver() error {
	lone, refresh := t.named("-lone"), t.refreshed()
	t.player.renew(t.owner(), tokenOver)
	api := t.player.api(t.owner())
	var all error
	for _, s := range []*oscar.Service{t.service("first", t.without), t.player.users.definition(lone.name, t.cluster.ID, Free{Topology: "none"})} {
		s.Visibility, s.Environment.Secrets[oscar.RefreshTokenKey] = oscar.VisibilityPrivate, refresh
		_, err := api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
		all = errors.Join(all, err)
	}
	d, err := t.player.desired(t.ctx, t.cluster.ID, lone.name)
	if err = errors.Join(all, err); err != nil {
		return err
	}
	_, err = api.AddReplicas(t.ctx, t.name, lone.added(), client.ChangeOptions{Wait: trialSoon})
	err = errors.Join(err, t.await("its cluster holds no token", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, record.HoldKey(t.cluster.ID, d.Federation))
		return errors.Is(err, store.ErrNotFound)
	}))
	if now, read := t.player.desired(t.ctx, t.cluster.ID, lone.name); read != nil || now.UID != d.UID {
		err = errors.Join(err, read, errors.New("it is another life of the service"))
	}
	<-time.After(past)
	t.player.renew(t.owner(), tokenLife)
	t.sim.RemoveService(lone.name)
	return errors.Join(err, lone.again())
}
