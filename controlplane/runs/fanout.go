package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// The Jobs of a service and their output, as OSCAR shows them: read from its members on the
// streams of their syncers, with the clusters' own credentials, after it was checked here
// what the caller may see. Nothing of them is kept.

const (
	// membersAtOnce is how many members are asked at a time, and how many a page has Jobs of. One that has said
	// nothing for silentAfter holds up no other: the next one is asked besides.
	membersAtOnce = 16
	silentAfter   = 3 * time.Second
	// maxJobList bounds one member's page in bytes; 70 Jobs have about 20 KiB.
	maxJobList = 1 << 20
	// memberTimeout is how long a member may take for a list, and all of them to begin an
	// answer: less than the 20 s after which OSCAR's clients give up.
	memberTimeout = 16 * time.Second
	// fullPage is how long an OSCAR takes for a full page of 70 Jobs: it asks its Kubernetes
	// five times a second.
	fullPage = 12 * time.Second
	// maxLogCursor in bytes: it holds the pages of membersAtOnce members, and the uids of all the others.
	maxLogCursor = 24 << 10
)

// reply is what one member said to a request that goes to all.
type reply struct {
	target
	resp *http.Response
	err  error
	// late says that the member was given up before: the status counts, and the body breaks off unless it was
	// read with the answer.
	late bool
}

// everywhere asks all members, membersAtOnce at the same time and those that are silent besides. It
// gives up a member that has not answered within memberTimeout. A reply that is enough ends it, and
// gives up the members that have not answered by then.
func everywhere(ctx context.Context, members []target, ask func(context.Context, target) (*http.Response, error), enough func(reply) bool) []reply {
	slots, replies := make(chan struct{}, membersAtOnce), make(chan reply, len(members))
	waits := map[string]context.CancelFunc{} // of members that have not answered
	for _, t := range members {
		one, cancel := context.WithCancel(ctx)
		waits[t.UID] = cancel
		go func() {
			slots <- struct{}{}
			free := sync.OnceFunc(func() { <-slots })
			defer free()
			defer time.AfterFunc(silentAfter, free).Stop()
			resp, err := ask(one, t) //nolint:bodyclose // the caller closes it
			replies <- reply{target: t, resp: resp, err: err}
		}()
	}
	giveUp := func() {
		for _, cancel := range waits {
			cancel()
		}
	}
	late := time.NewTimer(memberTimeout)
	defer late.Stop()
	out := make([]reply, 0, len(members))
	var found, slow bool
	for len(waits) > 0 {
		var r reply
		select {
		case r = <-replies:
		case <-late.C:
			slow = true
			giveUp()
			continue
		}
		end := waits[r.UID]
		delete(waits, r.UID)
		switch {
		case found && r.err == nil: // it has answered before it was given up
			_ = r.resp.Body.Close()
			end()
			continue
		case found:
			end()
			continue
		case r.err == nil:
			r.resp.Body, r.late = &ending{r.resp.Body, end}, slow
			if found = !slow && enough(r); found {
				giveUp()
			}
		default:
			end()
			if slow {
				r.err = tooSlow(r.err)
			}
		}
		out = append(out, r)
	}
	return out
}

// tooSlow is the error of a member that was given up.
func tooSlow(err error) *relay.Error {
	e, ok := errors.AsType[*relay.Error](err)
	return &relay.Error{Text: fmt.Sprintf("it has not answered within %s", memberTimeout), Sent: ok && e.Sent, Err: err}
}
