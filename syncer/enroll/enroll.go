package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/pki"
)

// Enrolment is the certificate of one syncer. Its methods may be called at any time.
type Enrolment struct {
	cfg  Config
	log  *slog.Logger
	key  *ecdsa.PrivateKey
	file string
	api  *apiClient
	// present is nil before the cluster has joined.
	present atomic.Pointer[enrolled]
	// putOff is a token that Ensure could not join with; Run goes on with it. Empty for none.
	putOff string
	// distrusted has why etcd was not reached last, until that is looked at.
	distrusted chan error
	ends, life prometheus.Gauge
	renewals   *prometheus.CounterVec
}

// Open reads what an earlier process left in the directory, or makes the key. It sends
// nothing yet.
func Open(cfg Config) (*Enrolment, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	key, err := pki.LoadOrCreateKey(cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("the syncer's key: %w", err)
	}
	e := &Enrolment{
		cfg: cfg, log: cfg.Logger, key: key, file: filepath.Join(cfg.Dir, stateFile),
		api: newAPIClient(cfg), distrusted: make(chan error, 1),
		ends: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_certificate_end_seconds", Help: "When the syncer's certificate for etcd ends, in Unix time.",
		}),
		life: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_certificate_life_seconds", Help: "How long that certificate is valid, from when it was signed.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_renewals_total", Help: "Tries to renew the syncer's certificate, by outcome.",
		}, []string{"outcome"}),
	}
	if err := errors.Join(cfg.Registry.Register(e.ends), cfg.Registry.Register(e.life), cfg.Registry.Register(e.renewals)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	had, err := load(e.file, cfg.ClusterID, key)
	other, ofOther := errors.AsType[*otherClusterError](err)
	switch {
	case ofOther && !cfg.TakeOver:
		return nil, fmt.Errorf("%s is of cluster %q, whose syncer would have to join again: give this one a directory of its own, by --identity-file, "+
			"or --accept-cluster-uid if it takes that cluster's place", e.file, other.id)
	case err != nil:
		e.log.Warn("what this syncer was told when it joined cannot be used; it has to join again", "file", e.file, "error", err)
	case had != nil:
		e.use(had)
	}
	return e, nil
}

func (e *Enrolment) use(next *enrolled) {
	e.present.Store(next)
	e.ends.Set(float64(next.cert.Leaf.NotAfter.Unix()))
	e.life.Set(next.life.Seconds())
}

// Certificate is the present one, for new connections to etcd. Open connections keep the one that
// they began with.
func (e *Enrolment) Certificate() (*tls.Certificate, error) {
	if now := e.present.Load(); now != nil {
		return now.cert, nil
	}
	return nil, errors.New("this cluster has not joined yet")
}

// Distrusted is told why a connection to etcd failed in which one side does not trust the other's
// certificate. The certificate is then renewed at once, since the answer to a renewal has
// the authorities of today: those of an etcd that was restored on another machine are others.
func (e *Enrolment) Distrusted(err error) {
	select {
	case e.distrusted <- err:
	default: // one is enough
	}
}

// ClusterUID is the registration that the syncer has joined; empty before.
func (e *Enrolment) ClusterUID() string {
	if now := e.present.Load(); now != nil {
		return now.ClusterUID
	}
	return ""
}

// Etcd is how etcd is reached: authorities in PEM, and endpoints. Both are empty
// before the cluster has joined.
func (e *Enrolment) Etcd() (ca []byte, endpoints []string) {
	if now := e.present.Load(); now != nil {
		return []byte(now.EtcdCA), now.EtcdEndpoints
	}
	return nil, nil
}

// Ensure returns when there is a valid certificate. It joins with a token that was not used yet,
// and renews a certificate that has expired. It retries until the control plane refuses. A
// refused token is no failure when there is a certificate, and one that is valid does not wait
// for a control plane that is away: etcd may be well.
func (e *Enrolment) Ensure(ctx context.Context) error {
	defer e.api.close()
	token, err := e.unusedToken()
	if err != nil && e.present.Load() == nil {
		return err
	}
	now := e.present.Load()
	if token != "" {
		valid := now != nil && !now.expired(e.cfg.Now())
		if valid {
			err = e.joinOnce(ctx, token)
		} else {
			err = e.retry(ctx, "join", func() error { return e.join(ctx, token) })
		}
		no, refused := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			return nil
		case refused && now != nil:
			e.refused(token, no)
		case valid && ctx.Err() == nil:
			e.putOff = token
			e.log.Warn("the control plane was not reached to join; the certificate of before is used, and the token is tried again", "error", err)
		default:
			return fmt.Errorf("join: %w", err)
		}
	}
	if now == nil {
		return fmt.Errorf("cluster %q has not joined: there is neither a certificate in %s nor a token; oscarfed cluster join makes one", e.cfg.ClusterID, e.cfg.Dir)
	}
	if !now.expired(e.cfg.Now()) {
		return nil
	}
	e.log.Info("the certificate has ended; it is renewed before anything else", "ended", now.cert.Leaf.NotAfter)
	if err := e.retry(ctx, "renewal", func() error { return e.renew(ctx) }); err != nil {
		return fmt.Errorf("renew the certificate that ended on %s: %w", now.cert.Leaf.NotAfter.UTC().Format(time.RFC3339), err)
	}
	return nil
}

// unusedToken is a token that was not used yet; empty when there is none.
func (e *Enrolment) unusedToken() (string, error) {
	token, err := e.cfg.Token()
	if err != nil {
		return "", fmt.Errorf("the join token: %w", err)
	}
	if now := e.present.Load(); now != nil && (hashOf(token) == now.Token || hashOf(token) == now.RefusedToken) {
		return "", nil
	}
	return token, nil
}

// joinOnce sends one request to join, all that goes with it within the time of one.
func (e *Enrolment) joinOnce(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	return e.join(ctx, token)
}

// refused notes that there is a certificate and a token that is not good. One that has ended
// is never good again, and is remembered; another refusal a person may end.
func (e *Enrolment) refused(token string, no *refusal) {
	e.log.Warn("the join token was refused; the certificate of before is used", "error", no)
	if no.code != v1.CodeForbidden {
		return
	}
	next := *e.present.Load()
	next.RefusedToken = hashOf(token)
	if err := save(e.file, next.saved); err != nil {
		e.log.Warn("that the join token was refused is not kept; it is tried again at the next start", "error", err)
	}
	e.use(&next)
}

// retry repeats do until it succeeds or is refused, or ctx ends.
func (e *Enrolment) retry(ctx context.Context, what string, do func() error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = e.cfg.FirstPause, e.cfg.LastPause
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if _, no := errors.AsType[*refusal](err); no {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
		e.log.Warn("the control plane was not reached; it is tried again", "what", what, "error", err, "pause", wait)
	}))
	return err
}

// join sends one request to join.
func (e *Enrolment) join(ctx context.Context, token string) error {
	csr, err := pki.NewRequest(e.key, e.cfg.ClusterID)
	if err != nil {
		return err
	}
	var answer v1.Enrolment
	err = e.api.post(ctx, "/system/join", v1.Join{
		Token: token, ClusterID: e.cfg.ClusterID, CSR: string(csr), Recipient: e.cfg.Recipient, KubeSystemUID: e.kubeSystem(ctx),
		OscarID: e.oscar(ctx),
	}, &answer)
	if err != nil {
		return err
	}
	if err := e.accept(answer, hashOf(token), ""); err != nil {
		return err
	}
	e.putOff = ""
	e.log.Info("this cluster has joined", "cluster", answer.ClusterID, "cluster_uid", answer.ClusterUID, "ends", answer.ExpiresAt.Time)
	return nil
}

// renew asks for a challenge and then for a certificate, once.
func (e *Enrolment) renew(ctx context.Context) error {
	had := e.present.Load()
	var challenge v1.JoinChallenge
	if err := e.api.post(ctx, "/system/join/challenge", struct{}{}, &challenge); err != nil {
		return err
	}
	csr, err := pki.NewRequest(e.key, challenge.Challenge)
	if err != nil {
		return err
	}
	var answer v1.Enrolment
	err = e.api.post(ctx, "/system/join/renew", v1.JoinRenewal{
		ClusterID: e.cfg.ClusterID, ClusterUID: had.ClusterUID, CSR: string(csr), KubeSystemUID: e.kubeSystem(ctx),
	}, &answer)
	if err != nil {
		return err
	}
	if answer.ClusterUID != had.ClusterUID {
		return fmt.Errorf("a renewal was asked for registration %s, and %s was answered", had.ClusterUID, answer.ClusterUID)
	}
	if err := e.accept(answer, had.Token, had.RefusedToken); err != nil {
		return err
	}
	if answer.RemovedAt != nil {
		e.log.Warn("this cluster was removed from the federation; it may only do what is left to do", "removed_at", answer.RemovedAt.Time)
	}
	e.log.Info("the certificate was renewed", "ends", answer.ExpiresAt.Time)
	return nil
}

// accept checks an answer, saves it and uses it. A renewal that cannot be saved is used all the same, since the one before
// ends: the next start renews that one. What else cannot be saved is not used.
func (e *Enrolment) accept(answer v1.Enrolment, token, refused string) error {
	s := saved{V: 1, Enrolment: answer, ReceivedAt: e.cfg.Now().UTC(), Token: token, RefusedToken: refused}
	next, err := check(s, e.cfg.ClusterID, e.key)
	if err != nil {
		return fmt.Errorf("the control plane's answer cannot be used: %w", err)
	}
	if err := save(e.file, s); err != nil {
		had := e.present.Load()
		if had == nil || had.Token != token || had.accessChanged(next) {
			return fmt.Errorf("the enrolment: %w", err)
		}
		e.log.Error("the renewed certificate cannot be saved; it is used until this process ends", "error", err)
	}
	e.use(next)
	return nil
}

// lookup bounds the time of what a request can do without, and leaves the request a part of what there is.
func (e *Enrolment) lookup(ctx context.Context) (context.Context, context.CancelFunc) {
	most := e.cfg.Timeout
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/3)
	}
	return context.WithTimeout(ctx, most)
}

// kubeSystem is empty when it is not known now.
func (e *Enrolment) kubeSystem(ctx context.Context) string {
	if e.cfg.KubeSystemUID == nil {
		return ""
	}
	ctx, cancel := e.lookup(ctx)
	defer cancel()
	uid, err := e.cfg.KubeSystemUID(ctx)
	if err != nil {
		e.log.Warn("the uid of the namespace kube-system cannot be read; the cluster is known by its key alone until it can", "error", err)
		return ""
	}
	return uid
}

// oscar is empty when it is not known now. Two clusters with one OSCAR are then found by their
// reports.
func (e *Enrolment) oscar(ctx context.Context) string {
	if e.cfg.OscarID == nil {
		return ""
	}
	ctx, cancel := e.lookup(ctx)
	defer cancel()
	id, err := e.cfg.OscarID(ctx)
	if err != nil {
		e.log.Warn("which OSCAR this is cannot be said; the cluster joins without it", "error", err)
		return ""
	}
	return id
}
