package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// historyTail is how many revisions are kept at first when etcd is full: watches
// that are a moment behind need not list again.
const historyTail = 1000

// recoveries makes space whenever it is short, until ctx ends. Attempts that do
// not help are repeated with growing pauses.
func (w *SpaceWatch) recoveries(ctx context.Context, m *maintenance) error {
	wait := newBackOff(w.cfg.Interval, w.cfg.MaxPause)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.wake:
		}
		// Other processes have seen the same. The one with the shortest pause does the work.
		if err := pause(ctx, rand.N(w.cfg.Interval)); err != nil { //nolint:gosec // spreads load, guards nothing
			return err
		}
		now, err := w.look(ctx, m)
		wanted := w.takeWanted()
		if err == nil && !now.Tight() && !wanted {
			wait.Reset()
			continue
		}
		if err == nil {
			err = w.recover(ctx, m, now, wanted)
		}
		w.step("")
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, ErrDenied) {
			w.log.Warn("space was not made in etcd; it is tried again", "error", err)
		}
		if w.Space().Tight() {
			if err := pause(ctx, wait.NextBackOff()); err != nil {
				return err
			}
			continue
		}
		wait.Reset()
	}
}

// recover is one attempt, as root where there is one.
func (w *SpaceWatch) recover(ctx context.Context, m *maintenance, now Space, wanted bool) (err error) {
	if w.cfg.Root == nil {
		return (&recovery{watch: w, members: m, wanted: wanted}).run(ctx, now)
	}
	root, err := w.cfg.Root(ctx)
	if err != nil {
		return fmt.Errorf("etcd as root: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	members, err := root.maintenance()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, members.close()) }()
	return (&recovery{watch: w, members: members, wanted: wanted}).run(ctx, now)
}

// step notes, for people, what is being done.
func (w *SpaceWatch) step(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.space.Step = what
}

// recovery is one attempt to make space.
type recovery struct {
	watch   *SpaceWatch
	members *maintenance
	// wanted says that a write does not fit although space is not short.
	wanted bool
}

// run takes every step that helps: forget history, write files anew, take back
// the alarm. It ends early when etcd denies a step.
func (r *recovery) run(ctx context.Context, now Space) error {
	now, err := r.forget(ctx, now)
	if err != nil {
		return err
	}
	var failed []error
	for _, member := range followersFirst(now.Members) {
		err := r.rewrite(ctx, member.ID)
		if errors.Is(err, ErrDenied) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			// The others may still be helped.
			failed = append(failed, fmt.Errorf("member at %s: %w", member.Endpoint, err))
		}
	}
	return errors.Join(append(failed, r.disarm(ctx))...)
}

// forget compacts. While etcd is merely short of space, or a write does not fit, the history
// that is promised stays. When it is full, and until it is in order again, history goes: first all
// but a tail, then all.
func (r *recovery) forget(ctx context.Context, now Space) (Space, error) {
	w := r.watch
	w.mu.Lock()
	promised, full := w.past.before(time.Now(), w.cfg.Retention), w.full
	w.mu.Unlock()
	targets := []int64{promised}
	if full {
		targets = append(targets, now.revision-historyTail, now.revision)
	}
	for _, revision := range targets {
		if !r.wanted && !slices.ContainsFunc(now.Members, SpaceMember.overfull) {
			return now, nil // what is free already is enough
		}
		r.wanted = false
		if revision <= 1 {
			continue
		}
		if revision != w.compacted {
			err := r.do("compact", fmt.Sprintf("compacting to revision %d", revision), now, func() error {
				return r.members.compact(ctx, revision, w.cfg.StepTimeout)
			})
			if err != nil {
				return now, err
			}
			w.compacted = revision
			if revision > promised {
				w.log.Warn("etcd is full: history was given up", "compacted_revision", revision, "retention", w.cfg.Retention)
			}
		}
		var err error
		if now.Level != SpaceFull {
			err = r.members.commit(ctx)
		}
		if err == nil {
			now, err = w.look(ctx, r.members)
		}
		if err != nil {
			return now, err
		}
	}
	return now, nil
}

// rewrite defragments one member if that still helps.
func (r *recovery) rewrite(ctx context.Context, id uint64) error {
	w := r.watch
	now, err := w.look(ctx, r.members)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(now.Members, func(m SpaceMember) bool { return m.ID == id })
	if i < 0 {
		return ErrUnavailable // it has fallen silent; the next attempt comes back to it
	}
	member := now.Members[i]
	// What a compaction has freed may be counted only after further writes, which a
	// full etcd takes none of: then the figures are no reason to leave it, but for a
	// member that was written anew since the last change of the store.
	futile := now.Level != SpaceFull || w.rewritten[id] == now.revision
	if !member.defragmentable() && (futile || !member.swollen()) {
		return nil
	}
	if other := w.waitFor(now.Silent); other != "" {
		// It may be away, or another process may be defragmenting it.
		return fmt.Errorf("%w: the member at %s does not answer; no other is blocked meanwhile, for up to %v", ErrUnavailable, other, w.cfg.StepTimeout)
	}
	err = r.do("defragment", "a member writes its file anew", now, func() error {
		return r.members.defragment(ctx, member, w.cfg.StepTimeout)
	})
	if err == nil {
		w.rewritten[id] = now.revision
	}
	return err
}

// waitFor gives a silent endpoint that is still to be waited for.
func (w *SpaceWatch) waitFor(silent []string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, endpoint := range silent {
		if since, ok := w.silentSince[endpoint]; ok && time.Since(since) < w.cfg.StepTimeout {
			return endpoint
		}
	}
	return ""
}

// disarm takes back the alarms once every member that answers takes deletions and reports again.
func (r *recovery) disarm(ctx context.Context) error {
	now, err := r.watch.look(ctx, r.members)
	if err != nil || now.Level != SpaceFull {
		return err
	}
	for _, m := range now.Members {
		if m.full() {
			r.watch.log.Error("etcd stays full: what is stored does not fit into its quota", "member", m.Endpoint,
				"size_bytes", m.Size, "in_use_bytes", m.InUse, "quota_bytes", m.Quota,
				"advice", "give etcd a larger quota (--etcd-quota, or --quota-backend-bytes of an external etcd) and restart it")
			return nil
		}
	}
	for _, id := range now.alarms {
		err := r.do("disarm", "taking back the alarm", now, func() error { return r.members.disarm(ctx, id) })
		if err != nil {
			return err
		}
	}
	_, err = r.watch.look(ctx, r.members)
	return err
}

// do takes one step and tells how it ended.
func (r *recovery) do(name, what string, now Space, step func() error) error {
	w := r.watch
	w.step(what)
	began := time.Now()
	err := step()
	outcome := "done"
	switch {
	case errors.Is(err, ErrDenied):
		outcome = "denied"
	case err != nil:
		outcome = "failed"
	}
	w.cfg.OnStep(name, outcome)
	w.mu.Lock()
	before := w.space.Denied
	w.space.Denied = outcome == "denied"
	w.space.Commands = now.commands()
	w.mu.Unlock()
	switch {
	case err == nil:
		w.log.Info("made space in etcd", "step", name, "detail", what, "seconds", time.Since(began).Seconds())
		return nil
	case outcome == "denied" && !before:
		w.log.Error("etcd does not let the control plane make space; somebody with the role root must", "step", name, "error", err,
			"run", strings.Join(now.commandsAt(), "; "))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// commands are what an operator runs, the followers first. Addresses are left to the environment
// (ETCDCTL_ENDPOINTS): /health needs no credentials.
func (s Space) commands() []string {
	return []string{fmt.Sprintf("etcdctl compact --physical %d", s.revision), "etcdctl defrag --cluster", "etcdctl alarm disarm"}
}

// commandsAt are the same with the addresses, for the log.
func (s Space) commandsAt() []string {
	var all []string
	for _, m := range s.Members {
		all = append(all, m.Endpoint)
	}
	endpoints := " --endpoints=" + strings.Join(all, ",")
	out := []string{fmt.Sprintf("etcdctl%s compact --physical %d", endpoints, s.revision)}
	for _, m := range followersFirst(s.Members) {
		out = append(out, "etcdctl --endpoints="+m.Endpoint+" defrag")
	}
	return append(out, "etcdctl"+endpoints+" alarm disarm")
}
