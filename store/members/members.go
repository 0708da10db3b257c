// Package members replaces members of an etcd cluster.
package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Member is one member, as etcd tells it.
type Member struct {
	ID uint64
	// Name is empty, and so are the ClientURLs, until the member has run.
	Name                 string
	PeerURLs, ClientURLs []string
}

// Errors that say why a member is not replaced.
var (
	// ErrAlive: the member answers.
	ErrAlive = errors.New("the member answers: stop it and take its data away first")
	// ErrUnknown: there is no member of this name, and none that was added and never ran.
	ErrUnknown = errors.New("etcd has no member of this name")
	// ErrNoQuorum: too few of the others answer.
	ErrNoQuorum = errors.New("too few of the other members answer")
)

// timeout bounds one question.
const timeout = 5 * time.Second

// Replace takes a member that lost its data out of the cluster and adds another one with the same peer
// URLs, of which etcd expects no data. It is refused while the member answers, and unless the others are
// a quorum without it. It may be repeated, also after an end between the two steps: then the peer URLs
// are given. It answers the new member and all there are. The client is connected as etcd's root.
func Replace(ctx context.Context, client *clientv3.Client, name string, peerURLs []string) (Member, []Member, error) {
	all, err := list(ctx, client)
	if err != nil {
		return Member{}, nil, err
	}
	old := find(all, func(m Member) bool { return m.Name == name })
	if old == nil {
		old = find(all, func(m Member) bool { return m.Name == "" && (len(peerURLs) == 0 || same(m.PeerURLs, peerURLs)) })
		if old != nil {
			return *old, all, nil // it was replaced before, and did not start yet
		}
		if len(peerURLs) == 0 {
			return Member{}, nil, fmt.Errorf("%w: %q; its members are %s", ErrUnknown, name, strings.Join(names(all), ", "))
		}
	} else {
		if answers(ctx, client, *old) {
			return Member{}, nil, fmt.Errorf("%q: %w", name, ErrAlive)
		}
		peerURLs = old.PeerURLs
	}
	if err := quorum(ctx, client, all, old); err != nil {
		return Member{}, nil, err
	}
	if old != nil {
		if err := remove(ctx, client, old.ID); err != nil {
			return Member{}, nil, fmt.Errorf("remove %q: %w", name, err)
		}
	}
	if err := add(ctx, client, peerURLs); err != nil {
		return Member{}, nil, fmt.Errorf("%q is removed, and was not added again; repeat it with --peer-url %s: %w", name, strings.Join(peerURLs, ","), err)
	}
	if all, err = list(ctx, client); err != nil {
		return Member{}, nil, err
	}
	added := find(all, func(m Member) bool { return same(m.PeerURLs, peerURLs) })
	if added == nil {
		return Member{}, nil, fmt.Errorf("%w: %q was removed by somebody else", ErrUnknown, name)
	}
	return *added, all, nil
}

// Await waits until a member runs and has applied what was committed when it began to answer.
func Await(ctx context.Context, client *clientv3.Client, id uint64) error {
	target := uint64(0)
	for {
		all, err := list(ctx, client)
		if err == nil {
			m := find(all, func(m Member) bool { return m.ID == id })
			if m == nil {
				return fmt.Errorf("%w: it was removed while it was waited for", ErrUnknown)
			}
			if st := status(ctx, client, *m); st != nil {
				target = cmp.Or(target, committed(ctx, client, all))
				if len(st.Errors) == 0 && st.RaftAppliedIndex >= target {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the new member does not run yet: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(time.Second):
		}
	}
}

// committed is the newest index of the raft log that a member knows as committed.
func committed(ctx context.Context, client *clientv3.Client, all []Member) uint64 {
	index := uint64(0)
	for _, m := range all {
		if st := status(ctx, client, m); st != nil {
			index = max(index, st.RaftIndex)
		}
	}
	return index
}

// quorum refuses a change when those who remain cannot agree on it, or could not go on with the new
// member as long as it does not run.
func quorum(ctx context.Context, client *clientv3.Client, all []Member, old *Member) error {
	total, alive := len(all), 0
	if old == nil {
		total++
	}
	var silent []string
	for _, m := range all {
		switch {
		case old != nil && m.ID == old.ID:
		case answers(ctx, client, m):
			alive++
		default:
			silent = append(silent, m.Name)
		}
	}
	// A cluster that was restored begins with one member, and waits for the second as soon as it is added.
	grows := old == nil && len(all) == 1 && alive == 1
	if need := total/2 + 1; alive < need && !grows {
		return fmt.Errorf("%w: %d are needed, and %s do not answer", ErrNoQuorum, need, strings.Join(silent, ", "))
	}
	return nil
}

func list(ctx context.Context, client *clientv3.Client) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("the members of etcd: %w", err)
	}
	out := make([]Member, 0, len(resp.Members))
	for _, m := range resp.Members {
		out = append(out, Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs})
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// remove is done when the member is gone, whoever removed it.
func remove(ctx context.Context, client *clientv3.Client, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := client.MemberRemove(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return err
	}
	return nil
}

// add is done when the member is there, whoever added it. A cluster that is changed takes no other change
// for a moment.
func add(ctx context.Context, client *clientv3.Client, peerURLs []string) error {
	for end := time.Now().Add(6 * timeout); ; {
		once, cancel := context.WithTimeout(ctx, timeout)
		_, err := client.MemberAdd(once, peerURLs)
		cancel()
		if err == nil || errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// status is what the member itself answers; nil when it does not.
func status(ctx context.Context, client *clientv3.Client, m Member) *clientv3.StatusResponse {
	for _, url := range m.ClientURLs {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		st, err := client.Status(ctx, url)
		cancel()
		if err == nil && st.Header.MemberId == m.ID {
			return st
		}
	}
	return nil
}

func answers(ctx context.Context, client *clientv3.Client, m Member) bool {
	return status(ctx, client, m) != nil
}

func find(all []Member, is func(Member) bool) *Member {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func names(all []Member) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.Name)
	}
	return out
}
