package ui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestALogIsThatOfTheAttempt: the job goes to another attempt, whose log is not there yet. What the
// former wrote is not shown as its log, and a log that cannot be read again says so.
func TestALogIsThatOfTheAttempt(t *testing.T) {
	play := newStage(1, 1)
	tells, gone := make(chan v1.Job, 1), make(chan struct{})
	var written atomic.Pointer[string] // by the second attempt
	w := world.New(t, world.Options{Clusters: []string{"oscar-cluster-a"}, Middleware: func(next http.Handler) http.Handler {
		staged := play.middleware(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch text := written.Load(); {
			case r.URL.Path == "/system/jobs/"+triedID:
				w.Header().Set("Content-Type", "text/event-stream")
				for {
					select {
					case j := <-tells:
						data, err := json.Marshal(j)
						if err != nil {
							panic(err)
						}
						fmt.Fprintf(w, "event: job\ndata: %s\n\n", data)
						_ = http.NewResponseController(w).Flush() // the browser may be gone
					case <-r.Context().Done():
						return
					case <-gone:
						return
					}
				}
			case strings.HasSuffix(r.URL.Path, "/first"):
				fmt.Fprint(w, "the first wrote this")
			case strings.HasSuffix(r.URL.Path, "/second") && text != nil:
				fmt.Fprint(w, *text)
			case strings.HasSuffix(r.URL.Path, "/second"):
				http.Error(w, "no log now", http.StatusNotFound)
			default:
				staged.ServeHTTP(w, r)
			}
		})
	}})
	defer close(gone)
	attempt := func(name string) v1.Job {
		j := play.tried()
		j.State, j.Place = "running", &v1.JobPlace{ClusterID: "oscar-cluster-000", ServiceName: "service-000", JobName: name}
		return j
	}
	s := open(t, w)
	s.admin()
	tells <- attempt("first")
	s.goTo("/jobs/"+triedID, "Job of service-000")
	s.shows("the first wrote this")
	tells <- attempt("second")
	s.shows("There is no log to show: no log now")
	s.Until("!document.querySelector('pre.log')")
	text := "the second wrote this"
	written.Store(&text)
	s.shows(text)
	written.Store(nil)
	s.shows("It could not be read again: no log now")
	s.shows(text)
	s.accessible("a log that is not read again")
}
