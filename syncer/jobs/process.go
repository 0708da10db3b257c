package jobs

import (
	"sync"

	"github.com/oscarfed/oscarfed/store/record"
)

// Process is what this process knows of jobs from one session to the next: which of those that it began
// OSCAR may have been asked for. A session may end between the report that OSCAR is asked and the POST.
// The zero value is ready; it is safe for concurrent use.
type Process struct {
	mu sync.Mutex
	// sessions are those of this process.
	sessions map[int64]bool
	// asked are attempts that a POST may have been sent for, and whose reports do not say more than that they
	// were begun.
	asked map[string]bool
}

// begin notes a session, by the revision that made it.
func (p *Process) begin(session int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions == nil {
		p.sessions, p.asked = map[int64]bool{}, map[string]bool{}
	}
	p.sessions[session] = true
}

// asks notes that OSCAR is about to be asked for an attempt.
func (p *Process) asks(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[key] = true
}

// told notes that a report says more of the attempt than that it was begun, or that it is gone.
func (p *Process) told(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, key)
}

// unsent says whether a report is of an attempt that this process began, and for which it has surely sent
// nothing. epoch is that of the store: of what one before a restore says, nothing is sure.
func (p *Process) unsent(key string, report *record.JobReport, epoch string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return report != nil && report.State == record.JobSubmitting && report.Epoch == epoch && p.sessions[report.Session] && !p.asked[key]
}
