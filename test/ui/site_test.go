package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/test/browser"
	"github.com/oscarfed/oscarfed/test/world"
)

// axeFile is what tools/ui.sh installs.
const axeFile = "../../build/ui/node_modules/axe-core/axe.min.js"

// site is the page over a world, in a browser.
type site struct {
	*browser.Browser
	w *world.World
	t *testing.T
}

func open(t *testing.T, w *world.World) *site {
	t.Helper()
	b := browser.Open(t)
	b.Look(browser.Look{Width: 1360, Height: 860})
	b.Visit(w.API+"/ui", w.API+"/ui")
	return &site{b, w, t}
}

func (s *site) login(user, password string) {
	s.t.Helper()
	s.Fill("[name=username]", user)
	s.Fill("[name=password]", password)
	s.Click("Log in")
}

// admin logs in, and waits until everything was told.
func (s *site) admin() {
	s.t.Helper()
	s.login(world.User, world.Password)
	s.shows("Overview")
	s.Until("document.querySelector('.connected.live')")
}

// goTo opens a view by its address, and waits for its heading.
func (s *site) goTo(path, heading string) {
	s.t.Helper()
	s.Eval(fmt.Sprintf("location.hash = %q", path), nil)
	s.Until(fmt.Sprintf("document.querySelector('h1')?.textContent === %q", heading))
}

// shows waits until a text is shown.
func (s *site) shows(text string) {
	s.t.Helper()
	s.Until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// accessible fails the test for every finding of axe-core, in light and dark.
func (s *site) accessible(view string) {
	s.t.Helper()
	source, err := os.ReadFile(axeFile)
	if err != nil {
		s.t.Fatalf("%v: run `make ui-tools`", err)
	}
	s.Eval(string(source), nil)
	for _, dark := range []bool{false, true} {
		s.Look(browser.Look{Width: 1360, Height: 860, Dark: dark})
		var found []string
		s.Eval(`axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then((r) =>
			r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html + ' ' + n.failureSummary).join(' | ')))`, &found)
		for _, f := range found {
			s.t.Errorf("%s (dark: %v): %s", view, dark, f)
		}
	}
	s.Look(browser.Look{Width: 1360, Height: 860})
}

// narrow fails the test when a phone would have to scroll to the side.
func (s *site) narrow(view string) {
	s.t.Helper()
	s.Look(browser.Look{Width: 360, Height: 740})
	var widths [2]int
	s.Eval("[document.documentElement.scrollWidth, innerWidth]", &widths)
	if widths[0] > widths[1] {
		s.t.Errorf("%s is %d wide on a phone of %d", view, widths[0], widths[1])
	}
	s.Look(browser.Look{Width: 1360, Height: 860})
}

// outage cuts what browsers ask for, and leaves others alone.
type outage struct {
	mu   sync.Mutex
	down bool
	cut  context.CancelFunc
	ctx  context.Context
}

func newOutage() *outage {
	o := &outage{}
	o.end()
	return o
}

func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = true
	o.cut()
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = false
	o.ctx, o.cut = context.WithCancel(context.Background())
}

func (o *outage) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		down, outside := o.down, o.ctx
		o.mu.Unlock()
		if !strings.HasPrefix(r.UserAgent(), "Mozilla") {
			next.ServeHTTP(w, r)
			return
		}
		if down {
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(outside, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
		if outside.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	})
}
