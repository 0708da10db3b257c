package oscarsim

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Kinds of faults.
const (
	// FaultHang takes the request and does nothing. It answers (500) only when the fault is cleared.
	FaultHang = "hang"
	// FaultRefuse closes the connection at once.
	FaultRefuse = "refuse"
	// Fault500 answers 500 and does nothing.
	Fault500 = "500"
	// Fault500After does the work and answers 500.
	Fault500After = "500_after"
	// FaultLate drops the connection and does the work after Delay.
	FaultLate = "late"
	// FaultCrash kills the process in the middle of the work and drops the connection: a create leaves a service
	// without bucket and webhook, a delete leaves webhook and buckets, an update leaves buckets and the old
	// definition.
	FaultCrash = "crash"
	// FaultCrashSecret kills it where a Secret has no service: a create has made nothing else yet, and a delete has all
	// but the Secret, the webhook and the buckets deleted. Of any other request it is FaultCrash.
	FaultCrashSecret = "crash_secret"
	// FaultStall has a delete wait for MinIO when it has deleted the service, until the fault is cleared: it goes on then,
	// also when the client has gone.
	FaultStall = "stall"
	// FaultDeny answers 401.
	FaultDeny = "deny"
	// FaultPartial answers a list of services with the first half of them, as if they were all.
	FaultPartial = "partial"
)

// defaultLate is the delay of late work when neither the fault nor the configuration says one.
const defaultLate = time.Second

// Fault is what goes wrong with requests of one operation. There is one fault per operation at a time; a fault of the
// operation itself goes before one of OpAny.
type Fault struct {
	Op    Op     `json:"op"`
	Fault string `json:"fault"` // empty or "none" clears the operation's fault
	// Count is how many requests it hits; 0 until it is cleared.
	Count int `json:"count"`
	// Delay is when late work is done; default Latency, or one second. Over HTTP it is text like "2s".
	Delay time.Duration `json:"-"`
}

// faults are the faults that are set, by operation. A used-up one stays, so that requests that hang on it are freed
// when it is replaced.
type faults map[Op]*activeFault

type activeFault struct {
	Fault
	left    int // -1: no limit
	cleared chan struct{}
}

// faultKinds and faultOps are what SetFault takes.
func faultKinds() []string {
	return []string{FaultHang, FaultRefuse, Fault500, Fault500After, FaultLate, FaultCrash, FaultCrashSecret, FaultStall, FaultDeny, FaultPartial}
}

func faultOps() []Op {
	return []Op{
		OpAny, OpCreate, OpUpdate, OpDelete, OpGet, OpList, OpJob, OpConfig, OpConfigUpdate, OpInfo, OpStatus, OpHealth,
		OpBuckets, OpBucketCreate, OpBucketUpdate, OpBucketDelete, OpPresign, OpUsage, OpQuotaUpdate, OpVolumes, OpVolumeCreate, OpVolumeDelete,
		OpLogs, OpLogsDelete, OpFederation, OpDeployment, OpRestart, OpStop, OpStart,
		OpMinIO,
	}
}

// SetFault replaces the fault of an operation. It refuses an unknown operation or kind.
func (s *Sim) SetFault(f Fault) error {
	none := f.Fault == "" || f.Fault == "none"
	switch {
	case !slices.Contains(faultOps(), f.Op):
		return fmt.Errorf("unknown op %q: use one of %v", f.Op, faultOps())
	case !none && !slices.Contains(faultKinds(), f.Fault):
		return fmt.Errorf("unknown fault %q: use none or one of %v", f.Fault, faultKinds())
	case f.Op == OpMinIO && !none && f.Fault != FaultHang && f.Fault != FaultRefuse:
		return fmt.Errorf("fault %q of %s: use %s or %s", f.Fault, OpMinIO, FaultHang, FaultRefuse)
	case f.Fault == FaultStall && f.Op != OpDelete:
		return fmt.Errorf("fault %q of %s: it is one of %s", f.Fault, f.Op, OpDelete)
	case f.Count < 0 || f.Delay < 0:
		return fmt.Errorf("count %d and delay %s cannot be negative", f.Count, f.Delay)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.faults[f.Op]; old != nil {
		close(old.cleared)
		delete(s.faults, f.Op)
	}
	if none {
		return nil
	}
	active := &activeFault{Fault: f, left: f.Count, cleared: make(chan struct{})}
	if f.Count == 0 {
		active.left = -1
	}
	s.faults[f.Op] = active
	return nil
}

// ClearFaults removes all faults and frees the requests that hang.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		close(f.cleared)
	}
	s.faults = faults{}
}

// reachMinIO is what stands between OSCAR and its MinIO: nil when nothing does. One that
// hangs is waited for as OSCAR does, without an end, also when the client has gone.
func (s *Sim) reachMinIO(c *call, method, path string) error {
	s.mu.Lock()
	f := s.faults[OpMinIO]
	if f == nil || f.left == 0 {
		f = nil
	} else if f.left > 0 {
		f.left--
	}
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	if f.Fault.Fault == FaultRefuse {
		return refused(method, s.provider.Endpoint+path)
	}
	select {
	case <-c.life.ctx.Done():
		c.drop()
	case <-f.cleared:
	}
	return nil
}

// takeFault returns the fault that hits this request, if any, and counts it.
func (s *Sim) takeFault(op Op) *activeFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range []Op{op, OpAny} {
		f := s.faults[o]
		if f == nil || f.left == 0 {
			continue
		}
		if f.left > 0 {
			f.left--
		}
		return f
	}
	return nil
}

// applyFault answers, or does not, in place of the handler.
func (s *Sim) applyFault(client context.Context, c *call, rt *route, f *activeFault) {
	switch f.Fault.Fault {
	case FaultHang:
		select {
		case <-client.Done():
			c.drop()
		case <-c.life.ctx.Done():
			c.drop()
		case <-f.cleared:
			c.text(http.StatusInternalServerError, upstreamError(c.op, "context deadline exceeded"))
		}
	case FaultRefuse:
		c.drop()
	case Fault500:
		c.text(http.StatusInternalServerError, upstreamError(c.op, "etcdserver: request timed out"))
	case Fault500After:
		rt.handle(c)
		if c.dropped {
			return
		}
		c.committed, c.answer, c.challenge = false, nil, false
		c.text(http.StatusInternalServerError, "error restarting the MinIO server: EOF")
	case FaultLate:
		s.doLate(c, rt, f)
		c.drop()
	case FaultCrash, FaultCrashSecret:
		c.crash, c.crashSecret = true, f.Fault.Fault == FaultCrashSecret
		rt.handle(c)
		c.drop()
	case FaultStall:
		c.stall = f.cleared
		rt.handle(c)
	case FaultDeny:
		c.deny()
	case FaultPartial:
		c.partial = true
		rt.handle(c)
	}
}

// doLate does the work of a request some time later, at once and without an answer.
func (s *Sim) doLate(c *call, rt *route, f *activeFault) {
	delay := f.Delay
	if delay == 0 {
		delay = s.cfg.Latency
	}
	if delay == 0 {
		delay = defaultLate
	}
	again := *c
	again.latency = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.life.ctx.Err() != nil {
		return // killed meanwhile
	}
	c.life.late++
	go func() {
		if again.pause(delay) {
			rt.handle(&again)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c.life.late--
		s.changed.Broadcast()
	}()
}

// upstreamError words a failed Kubernetes call as the handler of the operation does.
func upstreamError(op Op, cause string) string {
	switch op {
	case OpCreate:
		return "Error creating the service: " + cause
	case OpUpdate:
		return "Error updating the service: " + cause
	}
	return cause
}
