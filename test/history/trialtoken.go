package history

import (
	"errors"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
)

// tokenTrials are those of services that their cluster has to make again when the access token of their owner is
// over.
func tokenTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a service whose owner's token is over is made again with one of its holder": (*trial).tokenExchanged,
		"a service whose owner's refresh token is revoked waits for another one":     (*trial).tokenLost,
		"a service whose owner has given no refresh token waits for him":             (*trial).tokenNone,
		"a service waits for the holder of its owner's refresh token":                (*trial).tokenHolderAway,
		"a service waits for the issuer of its owner's tokens":                       (*trial).tokenIssuerAway,
		"a member that waits for its owner's token is removed":                       (*trial).tokenUnwanted,
		"a service that waits for its owner's token is deleted":                      (*trial).tokenDeleted,
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
	s := t.service("first", nil)
	s.Visibility = oscar.VisibilityPrivate
	if refresh != "" {
		s.Environment.Secrets[oscar.RefreshTokenKey] = refresh
	} else {
		s.Federation.Topology = oscar.TopologyNone // the others need one
	}
	_, err := t.player.api(t.owner()).CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	<-time.After(past)
	t.player.renew(t.owner(), tokenLife)
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

func (t *trial) tokenLost() error {
	first := t.refreshed()
	err := t.owned(first)
	t.player.people.issuer.RevokeNow(first)
	err = errors.Join(err, t.vanishes())
	_, given := t.player.api(t.owner()).SetRefreshToken(t.ctx, t.name, t.refreshed(), client.RefreshTokenOptions{})
	return errors.Join(err, given, t.again())
}

func (t *trial) tokenNone() error {
	err := errors.Join(t.owned(""), t.vanishes())
	second := t.service("second", func(f *oscar.Federation) { f.Topology = oscar.TopologyNone })
	_, changed := t.player.api(t.owner()).ChangeService(t.ctx, second, client.ChangeOptions{Async: true})
	return errors.Join(err, changed, t.again())
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

func (t *trial) tokenIssuerAway() error {
	err := t.owned(t.refreshed())
	t.player.people.issuer.Answer(http.StatusServiceUnavailable)
	err = errors.Join(err, t.vanishes())
	t.player.people.issuer.Answer(0)
	return errors.Join(err, t.again())
}
