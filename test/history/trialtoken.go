package history

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// tokenTrials are those of services that their cluster has to make again when the access token of their owner is
// over.
func tokenTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a service whose owner's token is over is made again with one of its holder": (*trial).tokenExchanged,
		"a refresh token of a creation that failed is good for the next one":         (*trial).tokenTwice,
		"a service whose owner's refresh token is revoked waits for another one":     (*trial).tokenLost,
		"a service whose owner has given no refresh token waits for him":             (*trial).tokenNone,
		"a service that somebody changes is repaired without a token of its owner":   (*trial).tokenDrift,
		"a service waits for the holder of its owner's refresh token":                (*trial).tokenHolderAway,
		"a service waits for the issuer of its owner's tokens":                       (*trial).tokenIssuerAway,
		"a member that waits for its owner's token is removed":                       (*trial).tokenUnwanted,
		"a service that waits for its owner's token is deleted":                      (*trial).tokenDeleted,
		"a volume is deleted with another token of its owner":                        (*trial).tokenVolume,
		"a token that its member does not use any more is not kept":                  (*trial).tokenUnused,
		"a member whose syncer has gone with a token that is over gets another one":  (*trial).tokenOverThere,
	}
}

// tokenOver is how long the tokens of a trial are good, and past when they are over.
const tokenOver, past = time.Minute, 3 * time.Minute

// grantOver is longer than what the issuer gives for a refresh token is good, and kept.
const grantOver = 12 * time.Minute

// owner is the person whose service it is.
func (t *trial) owner() *person { return t.player.people.all[0] }

// owned creates a service of the owner on every cluster, with a refresh token or without. When it comes back, the
// access token that it was made with is over.
func (t *trial) owned(refresh string) error {
	t.player.renew(t.owner(), tokenOver)
	err := t.createOwned(refresh)
	<-time.After(past)
	t.player.renew(t.owner(), tokenLife)
	return err
}

func (t *trial) createOwned(refresh string) error {
	s := t.service("first", nil)
	s.Visibility = oscar.VisibilityPrivate
	if refresh != "" {
		s.Environment.Secrets[oscar.RefreshTokenKey] = refresh
	} else {
		s.Federation.Topology = oscar.TopologyNone // the others need one
	}
	_, err := t.player.api(t.owner()).CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	return err
}

// refreshed is a refresh token of the owner.
func (t *trial) refreshed() string { return t.player.freshRefresh(t.owner(), 0) }

// vanishes deletes the service on the trial's cluster, and demands that it is not made again soon.
func (t *trial) vanishes() error {
	t.sim.RemoveService(t.name)
	<-time.After(trialLate)
	if t.stands(t.sim) {
		return errors.New("it is made again, and there is no token")
	}
	return nil
}

// again waits until the service is on the trial's cluster, and is its owner's.
func (t *trial) again() error {
	return t.await("it is made again", func() bool {
		view, stands := t.sim.Service(t.name)
		return stands && view.Owner == personSubject(t.owner().number)
	})
}

// tokenExchanged does so twice: the first of the holder's tokens is over by then.
func (t *trial) tokenExchanged() error {
	err := t.owned(t.refreshed())
	for range 2 {
		t.sim.RemoveService(t.name)
		err = errors.Join(err, t.again())
		<-time.After(grantOver)
	}
	return err
}

// tokenTwice gives a refresh token with a creation that fails, and with the one after it.
func (t *trial) tokenTwice() error {
	t.player.renew(t.owner(), tokenLife)
	refresh := t.refreshed()
	err := errors.Join(t.fails(oscarsim.OpCreate), refused(t.createOwned(refresh), v1.CodeReplicaFailed))
	t.sim.ClearFaults()
	err = errors.Join(err, t.nowhere(), t.owned(refresh))
	t.sim.RemoveService(t.name)
	return errors.Join(err, t.again())
}

func (t *trial) tokenLost() error {
	first := t.refreshed()
	err := t.owned(first)
	t.player.people.issuer.RevokeNow(first)
	err = errors.Join(err, t.vanishes())
	_, given := t.player.api(t.owner()).SetRefreshToken(t.ctx, t.name, t.refreshed(), client.RefreshTokenOptions{})
	return errors.Join(err, given, t.again())
}

func (t *trial) tokenNone() error {
	return errors.Join(t.owned(""), t.vanishes(), t.changedByOwner("second"), t.again())
}

// changedByOwner asks for a change, which brings an access token of the owner.
func (t *trial) changedByOwner(script string) error {
	s := t.service(script, func(f *oscar.Federation) { f.Topology = oscar.TopologyNone })
	s.Visibility = oscar.VisibilityPrivate
	_, err := t.player.api(t.owner()).ChangeService(t.ctx, s, client.ChangeOptions{Async: true})
	return err
}

func (t *trial) tokenDrift() error {
	return errors.Join(t.owned(""), t.changeDirectly(), t.is("first"))
}

// holderAway ends the syncer of the holder, which is the coordinator's, while the service vanishes elsewhere.
func (t *trial) holderAway() (back func(), err error) {
	if err := t.owned(t.refreshed()); err != nil {
		return func() {}, err
	}
	holder := t.player.w.Cluster(t.player.users.clusters[0])
	holder.Kill()
	return func() { holder.Start() }, t.vanishes()
}

func (t *trial) tokenHolderAway() error {
	back, err := t.holderAway()
	back()
	return errors.Join(err, t.again())
}

func (t *trial) tokenUnwanted() error {
	back, err := t.holderAway()
	_, removed := t.player.api(t.owner()).RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Async: true})
	back()
	<-time.After(trialLate)
	if t.stands(t.sim) {
		err = errors.Join(err, errors.New("it is made where it was removed"))
	}
	return errors.Join(err, removed)
}

func (t *trial) tokenDeleted() error {
	back, err := t.holderAway()
	_, deleted := t.player.api(t.owner()).DeleteService(t.ctx, t.name, client.DeleteOptions{})
	back()
	return errors.Join(err, deleted, t.nowhere())
}

// tokenVolume deletes a service with its volume when the token that they were made with is over.
func (t *trial) tokenVolume() error {
	there, err := t.ownedVolume()
	t.player.renew(t.owner(), tokenLife)
	_, deleted := t.player.api(t.owner()).DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete"})
	return errors.Join(err, deleted, t.await("both are gone", func() bool { return t.gone(t.sim) && !there() }))
}

// ownedVolume creates a service of the owner with a volume. When it comes back, the access token that it was made with
// is over.
func (t *trial) ownedVolume() (there func() bool, err error) {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	t.player.renew(t.owner(), tokenOver)
	s := t.alone(t.name, "first")
	s.Visibility, s.Volume = oscar.VisibilityPrivate, &oscar.Volume{Size: "1Gi", MountPath: "/data"}
	s.Environment.Secrets[oscar.RefreshTokenKey] = t.refreshed()
	_, err = t.player.api(t.owner()).CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	there = func() bool { _, has := t.sim.Volume(personSubject(t.owner().number), t.name); return has }
	if !there() {
		err = errors.Join(err, errors.New("it has no volume"))
	}
	<-time.After(past)
	return there, err
}

func (t *trial) tokenIssuerAway() error {
	err := t.owned(t.refreshed())
	t.player.people.issuer.Answer(http.StatusServiceUnavailable)
	err = errors.Join(err, t.vanishes())
	t.player.people.issuer.Answer(0)
	return errors.Join(err, t.again())
}

// left has the syncer of the trial's cluster go with a token of the owner's holder, which is not over yet.
func (t *trial) left() (back func(), err error) {
	err = t.owned(t.refreshed())
	t.sim.RemoveService(t.name)
	err = errors.Join(err, t.again())
	t.cluster.Kill()
	return func() { t.cluster.Start() }, err
}

// tokenUnused demands that the token is not in the store when it is over.
func (t *trial) tokenUnused() error {
	back, err := t.left()
	defer back()
	f, found := t.federation()
	if err = errors.Join(err, found); err != nil {
		return err
	}
	key := record.GrantKey(t.cluster.ID, f.UID)
	if _, granted := t.player.w.Store.Get(t.ctx, key); granted != nil {
		return fmt.Errorf("it was made with another token: %w", granted)
	}
	return t.await("the token is gone", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, key)
		return errors.Is(err, store.ErrNotFound)
	})
}

// tokenOverThere starts the syncer again when the token is over.
func (t *trial) tokenOverThere() error {
	back, err := t.left()
	<-time.After(grantOver)
	t.sim.RemoveService(t.name)
	back()
	return errors.Join(err, t.again())
}
