package oscarsim

import (
	"io"
	"net/http"
	"strings"
)

// run invokes a function, if there is a serverless backend: the service's own token opens it, and its body and answer
// pass through as they come. It is beside the table of routes, which takes bodies in and answers at once. It reports
// false for a request that is none.
func (s *Sim) run(w http.ResponseWriter, r *http.Request) bool {
	service, is := strings.CutPrefix(r.URL.Path, "/run/")
	if !is || r.Method != http.MethodPost || s.cfg.Function == nil || service == "" || strings.Contains(service, "/") {
		return false
	}
	parts := strings.Split(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	_, e := s.kube.find(service)
	opens := e != nil && len(parts) == 2 && strings.TrimSpace(parts[1]) == e.service.Token && len(e.service.Token) == tokenLength
	life := s.life
	s.mu.Unlock()
	if !opens {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	if life.ctx.Err() != nil {
		hangUp(w)
		return true
	}
	s.cfg.Function.ServeHTTP(w, r)
	return true
}

// Echo is a function that answers what it is sent, piece by piece.
func Echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 needs no permission
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil || control.Flush() != nil {
				return
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}
