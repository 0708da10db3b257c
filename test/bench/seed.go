package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

const (
	// seedAtOnce is how many jobs one transaction puts: etcd takes 128 operations.
	seedAtOnce = 60
	// seedWriters write at the same time.
	seedWriters = 4
	// seedAccounts have sent the jobs.
	seedAccounts = 1000
)

// seeder writes queued jobs straight into etcd, as the control plane writes them.
type seeder struct {
	template    record.Job
	federations []record.Federation
	sealer      *seal.Sealer
	// made counts the jobs that were written.
	made int
}

// newSeeder reads the federations and one job, which the others are made like.
func (w *bench) newSeeder(ctx context.Context) (*seeder, error) {
	identity, err := seal.Load(filepath.Join(w.dir, "identity.age"))
	if err != nil {
		return nil, err
	}
	s := &seeder{sealer: identity.Sealer(time.Now)}
	read := func(prefix string, add func(kv store.KV) error) error {
		got, err := w.eyes.client.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			if err := add(store.KV{Key: string(kv.Key), Value: kv.Value}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(record.FederationsPrefix, func(kv store.KV) error {
		f, err := store.Decode[record.Federation](kv)
		if err == nil {
			s.federations = append(s.federations, *f)
		}
		return err
	}); err != nil {
		return nil, err
	}
	found := false
	err = read(record.JobsPrefix, func(kv store.KV) error {
		j, err := store.Decode[record.Job](kv)
		if err == nil {
			s.template, found = *j, true
		}
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no job to make others like")
	}
	return s, err
}

// until writes jobs until there are n, spread over the federations.
func (s *seeder) until(ctx context.Context, client *clientv3.Client, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	next.Store(int64(s.made))
	for range seedWriters {
		g.Go(func() error {
			for {
				first := int(next.Add(seedAtOnce)) - seedAtOnce
				if first >= n {
					return nil
				}
				var ops []clientv3.Op
				for i := first; i < min(first+seedAtOnce, n); i++ {
					puts, err := s.job(i)
					if err != nil {
						return err
					}
					ops = append(ops, puts...)
				}
				if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
					return err
				}
			}
		})
	}
	s.made = n
	return g.Wait()
}

// job is the i-th job with its event.
func (s *seeder) job(i int) ([]clientv3.Op, error) {
	f, j, now := &s.federations[i%len(s.federations)], s.template, record.At(time.Now())
	j.Job, j.RequestID, j.AcceptedAt, j.ChangedAt = record.NewUID(), record.NewUID(), now, now
	j.Federation, j.GroupID, j.Owner, j.By = f.UID, f.GroupID, f.Owner, fmt.Sprintf("user-%04d", i%seedAccounts)
	j.Cluster, j.Service, j.Reason, j.Message = f.Members[0].ClusterID, f.Members[0].ServiceName, "", ""
	value, err := record.Encode(j)
	if err != nil {
		return nil, err
	}
	// The body has the size of the template's event, so that the record tells the truth.
	sealed, err := s.sealer.Seal(seal.Header{Purpose: seal.PurposeEvent, UID: j.Job}, bytes.Repeat([]byte("e"), j.Size), s.sealer.Own())
	if err != nil {
		return nil, err
	}
	event, err := record.Encode(record.Event{V: record.Version, Sealed: sealed})
	return []clientv3.Op{
		clientv3.OpPut(record.JobKey(j.Job), string(value)), clientv3.OpPut(record.EventKey(j.Job), string(event)),
	}, err
}
