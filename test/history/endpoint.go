package history

import (
	"io"
	"net/http"
	"sync"
)

// endpoint is a member that only takes jobs: a server at a host of its own. It answers as it is told, and
// keeps what it was asked for and what it has taken.
type endpoint struct {
	mu     sync.Mutex
	answer endpointAnswer
	asked  map[string]int
	taken  map[string]int
	// arrived has an element when an event has come that is kept waiting, which goes on when wait is closed.
	arrived chan struct{}
	wait    chan struct{}
}

// endpointAnswer is what an endpoint does with an event.
type endpointAnswer string

const (
	endpointTakes endpointAnswer = ""
	// endpointRefuses answers with an error, endpointBreaks with nothing; it has taken nothing.
	endpointRefuses endpointAnswer = "refuses"
	endpointBreaks  endpointAnswer = "breaks off"
	// endpointLoses has taken the event, and breaks off.
	endpointLoses endpointAnswer = "takes and breaks off"
)

func newEndpoint() *endpoint {
	return &endpoint{asked: map[string]int{}, taken: map[string]int{}, arrived: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // not all of it came
	}
	if wait := e.waits(); wait != nil {
		e.arrived <- struct{}{}
		<-wait
	}
	switch e.come(string(body)) {
	case endpointRefuses:
		w.WriteHeader(http.StatusServiceUnavailable)
	case endpointBreaks, endpointLoses:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// come notes that an event has come, and says what is done with it.
func (e *endpoint) come(event string) endpointAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked[event]++
	if e.answer == endpointTakes || e.answer == endpointLoses {
		e.taken[event]++
	}
	return e.answer
}

// answers says what is done from now on.
func (e *endpoint) answers(answer endpointAnswer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

// holds keeps what comes from now on waiting, until goOn is called.
func (e *endpoint) holds() (goOn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := make(chan struct{})
	e.wait = wait
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wait = nil
		close(wait)
	}
}

func (e *endpoint) waits() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wait
}

// of is how often an event was asked for, and taken.
func (e *endpoint) of(event string) (asked, taken int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[event], e.taken[event]
}
