package ui_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/test/browser"
	"github.com/oscarfed/oscarfed/test/world"
)

// onStage opens the page before made-up things.
func onStage(t *testing.T, things, jobs int) (*site, *stage) {
	t.Helper()
	play := newStage(things, jobs)
	w := world.New(t, world.Options{Clusters: []string{"oscar-cluster-a"}, Middleware: play.middleware})
	return open(t, w), play
}

// frames gives how many frames a second the page shows while it does something, over so many frames.
const frames = `new Promise((done) => {
	const most = %d; let n = 0, first;
	const frame = (now) => { first ??= now; if (n++ < most) requestAnimationFrame(frame); else done(1000 * most / (now - first)); };
	requestAnimationFrame(frame);
})`

// beats is how often a second a member, an event and a job are told.
const beats = 20

// TestThePageOfTwoHundredMembersAndTenThousandJobs works, and says how fast it is: first content
// from loopback, and frames a second while everything changes. `make bench BENCH=page` prints it.
func TestThePageOfTwoHundredMembersAndTenThousandJobs(t *testing.T) {
	s, play := onStage(t, 200, 10_000)
	var paints []float64
	for range 5 {
		s.Visit(s.w.API+"/ui", s.w.API+"/ui")
		s.Until("document.querySelector('[name=username]')")
		var at float64
		s.Eval(`new Promise((done) => {
			const painted = () => performance.getEntriesByName('first-contentful-paint')[0];
			if (painted()) done(painted().startTime);
			else new PerformanceObserver((_, o) => { if (painted()) { o.disconnect(); done(painted().startTime); } }).observe({type: 'paint', buffered: true});
		})`, &at)
		paints = append(paints, at)
	}
	slices.Sort(paints)
	t.Logf("first content: %.0f ms, the median of %d loads from loopback", paints[len(paints)/2], len(paints))

	s.admin()
	s.Look(browser.Look{Width: 1360, Height: 860, Motion: true})
	perSecond := func(what string, most int) {
		t.Helper()
		var fps float64
		s.Eval(fmt.Sprintf(frames, most), &fps)
		t.Logf("%s: %.0f frames a second", what, fps)
	}
	perSecond("the overview, at rest", 60)
	s.goTo("/federations/f000", "service-000")
	s.Until("document.querySelector('.graph')?._cyreg?.cy.nodes().length === 200")
	perSecond("a federation of 200 members, at rest", 60)
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		beat := time.NewTicker(time.Second / beats)
		defer beat.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-beat.C:
				play.tell(play.everySecond(i)...)
			}
		}
	}()
	s.Until("document.querySelector('.graph')._cyreg.cy.nodes('.job').length > 0")
	perSecond(fmt.Sprintf("a federation of 200 members, %d changes a second", 3*beats), 60)
	close(stop)
	<-ended
	s.goTo("/jobs", "Jobs")
	s.Until("document.querySelectorAll('tbody .state').length === 50")
	perSecond("10,000 jobs, at rest", 60)
	var pages float64
	s.Eval(`(async () => {
		const shown = () => document.querySelector('tbody th .mono')?.textContent, began = performance.now();
		for (let i = 0; i < 20; i++) {
			const before = shown();
			[...document.querySelectorAll('.pager button')].at(-1).click();
			await new Promise((done) => { const ask = () => shown() && shown() !== before ? done() : requestAnimationFrame(ask); ask(); });
		}
		return (performance.now() - began) / 20;
	})()`, &pages)
	t.Logf("10,000 jobs: %.0f ms for a page", pages)
	s.shows("Page 21")
}

// mayGrow is how much more of the heap the page may have after the second half of eight hours than
// after the first, in bytes and in nodes: what comes in the first half fills all that is kept.
const mayGrow, mayGrowNodes = 2 << 20, 1000

// TestEightHoursOpenDoNotGrow: as many changes as eight hours of a busy federation have come as
// fast as the page reads them. What it keeps does not grow with their number.
func TestEightHoursOpenDoNotGrow(t *testing.T) {
	const seconds = 8 * 60 * 60
	s, play := onStage(t, 10, 10)
	s.admin()
	s.goTo("/federations/f000", "service-000")
	s.Until("document.querySelector('.graph')?._cyreg?.cy")
	var heap, nodes [2]int64
	for half := range 2 {
		first := half * seconds / 2
		for i := first; i < first+seconds/2; i++ {
			play.tell(play.everySecond(i)...)
		}
		s.Until(fmt.Sprintf("document.querySelector('.summary')?.textContent.replace(/\\D/g, '').includes('%d')", first+seconds/2+1))
		s.Until("document.querySelector('.connected.live')")
		heap[half], nodes[half] = s.Heap()
		t.Logf("after %d changes: %d KiB, %d nodes", 3*(first+seconds/2), heap[half]>>10, nodes[half])
	}
	if heap[1]-heap[0] > mayGrow || nodes[1] > nodes[0]+mayGrowNodes {
		t.Errorf("the heap has grown from %d to %d bytes, and the document from %d to %d nodes", heap[0], heap[1], nodes[0], nodes[1])
	}
}
