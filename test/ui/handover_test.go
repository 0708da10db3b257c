package ui_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/test/browser"
	"github.com/oscarfed/oscarfed/test/world"
)

// marks counts the marks that the graph gets, from now on.
const marks = "window.marks = 0; document.querySelector('.graph')._cyreg.cy.on('add', 'node.job', () => { window.marks++ }); 0"

// TestAJobIsSeenOnItsWay from where it came in to another cluster, once, beside the words for it;
// who wants no motion has the words alone, and a job that stays moves nothing.
func TestAJobIsSeenOnItsWay(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	if status, _, body := w.Do("POST", "/system/services", definition("ghcr.io/grycap/imagemagick:1")); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	s := open(t, w)
	s.admin()
	s.goTo("/federations", "Federations")
	s.Click("grayify")
	const taken = `[...document.querySelectorAll('td[data-label="Jobs taken"]')].filter((e) => e.textContent.includes('from oscar-cluster-a/grayify'))`
	look := func(motion bool) {
		s.Look(browser.Look{Width: 1360, Height: 860, Motion: motion})
		s.Until("document.querySelector('.graph')?._cyreg?.cy")
		s.Eval(marks, nil)
	}
	marked := func(want int, what string) {
		t.Helper()
		var got, left int
		s.Eval("window.marks", &got)
		if got != want {
			t.Errorf("%s: %d marks, want %d", what, got, want)
		}
		s.Until("document.querySelector('.graph')._cyreg.cy.nodes('.job').length === 0")
		s.Eval("document.querySelector('.graph')._cyreg.cy.nodes().length", &left)
		if left != 3 {
			t.Errorf("%s: the graph is left with %d nodes", what, left)
		}
	}
	look(true)
	stays := w.Submit("grayify", `{"event":1}`)
	s.endsWell(stays)
	marked(0, "a job that stays")

	if status, _, body := w.Do("PUT", "/system/clusters/oscar-cluster-a/state", `{"state":"cordoned"}`); status >= 300 {
		t.Fatalf("%d %s", status, body)
	}
	moves := w.Submit("grayify", `{"event":2}`)
	s.Until("window.marks === 1")
	s.Until(taken + ".length === 1")
	s.Until("document.querySelector('[role=status].hidden')?.textContent.startsWith('1 job handed from oscar-cluster-a/grayify to oscar-cluster-')")
	s.endsWell(moves)
	marked(1, "a job that is handed over")
	s.accessible("a federation with a handover")
	s.narrow("a federation with a handover")

	s.goTo("/federations", "Federations") // what was told is forgotten with the view
	s.Click("grayify")
	look(false)
	quiet := w.Submit("grayify", `{"event":3}`)
	s.Until(taken + ".length === 1")
	s.endsWell(quiet)
	marked(0, "without motion")
}

// endsWell waits until a job has succeeded.
func (s *site) endsWell(job string) {
	s.t.Helper()
	s.w.Eventually("the job ends", func() bool {
		j, err := s.w.Client.Job(s.t.Context(), job)
		return err == nil && j.State == "succeeded"
	})
}
