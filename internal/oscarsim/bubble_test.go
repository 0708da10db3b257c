package oscarsim_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

var errDropped = errors.New("connection dropped")

// call sends a request without a network, so that it can run on a fake clock.
func call(ctx context.Context, sim *oscarsim.Sim, method, path, body string) (got answer) {
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	req.SetBasicAuth(user, password)
	rec := httptest.NewRecorder()
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			got = answer{err: errDropped}
		default:
			panic(p)
		}
	}()
	sim.Handler().ServeHTTP(rec, req)
	return answer{status: rec.Code, body: rec.Body.String()}
}

// pending is a request that may not be answered yet.
type pending struct{ done chan answer }

func start(ctx context.Context, sim *oscarsim.Sim, method, path, body string) pending {
	p := pending{make(chan answer, 1)}
	go func() { p.done <- call(ctx, sim, method, path, body) }()
	return p
}

// answered returns the answer if there is one by now.
func (p pending) answered() (answer, bool) {
	select {
	case a := <-p.done:
		return a, true
	default:
		return answer{}, false
	}
}

// bubble runs a test on a fake clock with a simulator whose creates and deletes take the real time.
func bubble(t *testing.T, cfg oscarsim.Config, test func(t *testing.T, sim *oscarsim.Sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.User, cfg.Password = user, password
		sim := oscarsim.New(cfg)
		defer sim.Kill()
		test(t, sim)
	})
}

func slow() oscarsim.Config { return oscarsim.Config{Latency: oscarsim.RealLatency} }
