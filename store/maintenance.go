package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// commitPause is longer than etcd's default --backend-batch-interval (100 ms), after which it
	// commits what was written.
	commitPause = 250 * time.Millisecond
	// commitLease is the life of the leases that are written for it, without keys.
	commitLease = 5 * time.Second
)

// maintenance speaks to each member on a connection of its own: what a member
// says of its database, and its defragmentation, are of that member alone.
type maintenance struct {
	store   *Store
	members map[string]*clientv3.Client
}

func (s *Store) maintenance() (*maintenance, error) {
	m := &maintenance{store: s, members: map[string]*clientv3.Client{}}
	for _, endpoint := range s.cfg.Endpoints {
		client, err := s.dialTo([]string{endpoint})
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.members[endpoint] = client
	}
	return m, nil
}

func (m *maintenance) close() error {
	var errs []error
	for _, client := range m.members {
		if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("close etcd client: %w", err))
		}
	}
	return errors.Join(errs...)
}

// look asks every member at once how it stands. Several endpoints of one member
// count once. A member that does not answer in time is silent; when none answers
// it is ErrUnavailable. Space.Silent counts with an error, too.
func (m *maintenance) look(ctx context.Context) (Space, error) {
	var (
		mu      sync.Mutex
		group   sync.WaitGroup
		answers = map[string]*pb.StatusResponse{}
		reads   = map[string]time.Duration{}
		last    error
	)
	for endpoint, client := range m.members {
		group.Go(func() {
			resp, err := try(ctx, m.store, func(ctx context.Context) (*pb.StatusResponse, error) {
				return pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
			})
			var read time.Duration
			if err == nil {
				read = m.read(ctx, client)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				last = translate(err)
				return
			}
			answers[endpoint], reads[endpoint] = resp, read
		})
	}
	group.Wait()
	if len(answers) == 0 {
		return Space{Silent: slices.Sorted(maps.Keys(m.members))}, last
	}
	var out Space
	troubled := false
	seen := map[uint64]bool{}
	for _, endpoint := range slices.Sorted(maps.Keys(m.members)) {
		resp := answers[endpoint]
		if resp == nil {
			out.Silent = append(out.Silent, endpoint)
			continue
		}
		out.revision = max(out.revision, resp.Header.Revision)
		// Alarms are among what a member calls errors. Asking for them properly
		// costs an entry of the raft log, so it is done only then.
		troubled = troubled || len(resp.Errors) > 0
		if id := resp.Header.MemberId; !seen[id] {
			seen[id] = true
			out.Members = append(out.Members, SpaceMember{
				ID: id, Endpoint: endpoint, Size: resp.DbSize, InUse: resp.DbSizeInUse, Quota: resp.DbSizeQuota,
				Leader: resp.Leader == id, Read: reads[endpoint],
			})
		}
	}
	if troubled {
		alarms, err := m.alarms(ctx)
		if err != nil {
			return out, err
		}
		out.alarms = alarms
	}
	out.judge()
	return out, nil
}

// read tells how long one member takes for a linearizable read: it waits for what the others have agreed upon,
// and so for the member's disk.
func (m *maintenance) read(ctx context.Context, client *clientv3.Client) time.Duration {
	began := time.Now()
	_, _ = try(ctx, m.store, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return client.Get(ctx, record.MetaKey) // a failure shows by the time that it takes
	})
	return time.Since(began)
}

// alarms are the members that have raised NOSPACE.
func (m *maintenance) alarms(ctx context.Context) ([]uint64, error) {
	resp, err := try(ctx, m.store, m.store.client.AlarmList)
	if err != nil {
		return nil, translate(err)
	}
	var out []uint64
	for _, alarm := range resp.Alarms {
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			out = append(out, alarm.MemberID)
		}
	}
	slices.Sort(out)
	return out, nil
}

// compact forgets the history before a revision, and returns when its space is
// free. A history that is compacted as far already is done.
func (m *maintenance) compact(ctx context.Context, revision int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := m.store.client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if err = translate(err); errors.Is(err, ErrCompacted) {
		return nil
	}
	return err
}

// commit makes every member commit its database twice without a new revision. A member counts what a
// compaction freed only then, and a store in which nobody writes would stay short of space. A full
// etcd refuses it.
func (m *maintenance) commit(ctx context.Context) error {
	for range 2 {
		if _, err := m.store.Grant(ctx, commitLease); err != nil {
			return err
		}
		if err := pause(ctx, commitPause); err != nil {
			return err
		}
	}
	return nil
}

// defragment makes one member write its file anew. The member answers no request meanwhile.
func (m *maintenance) defragment(ctx context.Context, member SpaceMember, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := pb.NewMaintenanceClient(m.members[member.Endpoint].ActiveConnection()).Defragment(ctx, &pb.DefragmentRequest{})
	return translate(err)
}

// disarm takes back the alarm of one member. A member that is still full raises
// it again at its next write.
func (m *maintenance) disarm(ctx context.Context, member uint64) error {
	_, err := try(ctx, m.store, func(ctx context.Context) (*clientv3.AlarmResponse, error) {
		return m.store.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: member, Alarm: pb.AlarmType_NOSPACE})
	})
	return translate(err)
}

// followersFirst orders members for defragmentation: the leader last, since its
// silence may cost an election.
func followersFirst(members []SpaceMember) []SpaceMember {
	out := slices.Clone(members)
	slices.SortFunc(out, func(a, b SpaceMember) int {
		if a.Leader != b.Leader {
			if a.Leader {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return out
}
