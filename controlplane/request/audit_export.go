package request

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// auditExport writes the audit entries of all instances to a log of this instance, in the order
// in which they were written.
type auditExport struct {
	log *auditlog.Log

	mu      sync.Mutex
	pending []auditlog.Entry
	// restored is the newest revision of a store that is behind what was exported.
	restored int64
	newest   int64
	wake     signal.Signal
}

func newAuditExport(log *auditlog.Log) *auditExport {
	x := &auditExport{log: log, wake: signal.New()}
	if log != nil {
		x.newest = log.Head().Revision
	}
	return x
}

// Listed implements store.Tap.
func (x *auditExport) Listed(kvs []store.KV) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var newest int64
	known := map[string]bool{}
	for _, e := range x.pending {
		known[e.ID] = true
	}
	for _, kv := range kvs {
		newest = max(newest, kv.ModRevision)
		if e, ok := entryToExport(kv); ok && !known[e.ID] {
			x.pending = append(x.pending, e)
		}
	}
	if newest < x.newest {
		x.restored, x.newest = newest, newest
	}
	slices.SortFunc(x.pending, func(a, b auditlog.Entry) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID))
	})
	x.notify()
}

// Changed implements store.Tap.
func (x *auditExport) Changed(kv store.KV, deleted bool) {
	e, ok := entryToExport(kv)
	if deleted || !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending = append(x.pending, e)
	x.newest = max(x.newest, e.Revision)
	x.notify()
}

// notify needs mu.
func (x *auditExport) notify() {
	x.wake.Send()
}

func entryToExport(kv store.KV) (auditlog.Entry, bool) {
	id, ok := strings.CutPrefix(kv.Key, record.AuditPrefix)
	return auditlog.Entry{ID: strings.Clone(id), Revision: kv.ModRevision, Record: slices.Clone(kv.Value)}, ok
}

// exportAudit writes pending entries until ctx ends. Entries that cannot be written wait, at
// most as many as the store keeps.
func (c *Controller) exportAudit(ctx context.Context) error {
	x := c.counters.export
	head := x.log.Head()
	c.cfg.Logger.Info("the audit is exported", "entry", head.Seq, "hash", head.Hash)
	const first, longest = time.Second, time.Minute
	pause := first
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.wake:
		}
		for x.take() {
			err := x.write()
			if err == nil {
				pause = first
				continue
			}
			c.cfg.Logger.Error("the audit is not exported; it is tried again", "error", err, "pending", x.trim(c.cfg.KeepAudit))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
		}
	}
}

// take says whether something is pending.
func (x *auditExport) take() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.pending) > 0
}

// trim drops the oldest entries beyond most, and returns how many are left.
func (x *auditExport) trim(most int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending = x.pending[max(0, len(x.pending)-most):]
	return len(x.pending)
}

// write writes what is pending now. Only one goroutine calls it.
func (x *auditExport) write() error {
	x.mu.Lock()
	some, restored := slices.Clone(x.pending), x.restored
	x.restored = 0
	x.mu.Unlock()
	if restored > 0 {
		x.log.Restart(restored)
	}
	if err := x.log.Append(some); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, e := range some {
		written[e.ID] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending = slices.DeleteFunc(x.pending, func(e auditlog.Entry) bool { return written[e.ID] })
	return nil
}
