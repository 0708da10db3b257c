package ui_test

import (
	"fmt"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// visited is a view: its address, its heading, and what is there once it is whole.
type visited struct{ path, heading, whole string }

// viewsOf are the views that have something to show of so many things.
func viewsOf(things int) map[string]visited {
	views := map[string]visited{
		"overview":    {"/", "Overview", "document.querySelectorAll('.number').length >= 5"},
		"federations": {"/federations", "Federations", "document.querySelector('tbody tr, .empty')"},
		"jobs":        {"/jobs", "Jobs", "document.querySelector('tbody tr .state, .empty')"},
		"clusters":    {"/clusters", "Clusters", "document.querySelector('.cluster .capacity, .empty')"},
		"audit":       {"/audit", "Audit", "document.querySelector('tbody tr .state, .empty')"},
		"data":        {"/data", "Data", "document.querySelector('tbody tr, .empty')"},
		"account":     {"/account", "Who am I", "document.querySelector('.facts')"},
		"create":      {"/create", "Create a service", "document.querySelector('.definition')"},
	}
	if things > 0 {
		views["bucket"] = visited{"/data/oscar-cluster-000/bucket-000", "bucket-000", "document.querySelector('tbody tr')"}
		views["job"] = visited{"/jobs/" + triedID, "Job of service-000", fmt.Sprintf("document.querySelectorAll('.timeline li').length >= %d", things)}
		views["history"] = visited{"/federations/f000/definition", "service-000", fmt.Sprintf("document.querySelectorAll('.rows .row').length >= %d", things)}
		views["federation"] = visited{"/federations/f000", "service-000", fmt.Sprintf("document.querySelectorAll('tbody tr').length >= %d", things)}
		views["cluster"] = visited{"/clusters/oscar-cluster-000", "oscar-cluster-000", "document.querySelector('.facts')"}
	}
	if things > 1 {
		views["long"] = visited{"/federations/f001", longName, "document.querySelector('tbody tr')"}
		views["graph"] = visited{"/federations/f000", "service-000", "document.querySelector('.graph canvas')"}
	}
	return views
}

// TestEveryViewWithSoManyThings is accessible and not wider than a phone, with nothing in it and
// with 200 things.
func TestEveryViewWithSoManyThings(t *testing.T) {
	for _, things := range []int{0, 1, 10, 200} {
		t.Run(fmt.Sprint(things), func(t *testing.T) {
			s, _ := onStage(t, things, things)
			s.admin()
			for name, v := range viewsOf(things) {
				s.goTo(v.path, v.heading)
				s.Until(v.whole)
				s.narrow(name)
				s.accessible(name)
				s.uncut(name)
				s.look(fmt.Sprintf("%s-%d", name, things))
			}
		})
	}
}

// uncut fails the test for a table that is wider than its frame, where there is room for a desk.
func (s *site) uncut(view string) {
	s.t.Helper()
	var wide []string
	s.Eval("[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => `${e.ariaLabel}: ${e.scrollWidth} in ${e.clientWidth}`)", &wide)
	for _, one := range wide {
		s.t.Errorf("%s: a table is cut: %s", view, one)
	}
}

// TestWhateverThingsAreCalledIsText, in every view that names them.
func TestWhateverThingsAreCalledIsText(t *testing.T) {
	s, play := onStage(t, 3, 3)
	const reversed = "\u202e"
	for _, c := range play.clusters {
		c.Message, c.Hint, c.OscarVersion, c.Endpoint, c.Labels = markup, markup, markup, "javascript:alert(1)", map[string]string{markup: reversed + markup}
	}
	for _, f := range play.federations {
		f.GroupID, f.Owner, f.Hint, f.Topology, f.Delegation = markup, markup, markup, markup, markup
		for i := range f.Replicas {
			f.Replicas[i].Status.Message, f.Replicas[i].Status.Reason, f.Replicas[i].Status.Hint = markup, markup, markup
		}
	}
	for i := range play.events {
		play.events[i].Message, play.events[i].ServiceName, play.events[i].Hint = markup, reversed+markup, markup
	}
	for i := range play.jobs {
		play.jobs[i].ServiceName, play.jobs[i].Message, play.jobs[i].Reason, play.jobs[i].Owner = markup, markup, markup, markup
		play.jobs[i].Place = &v1.JobPlace{URL: "javascript:alert(1)", ServiceName: markup}
		play.audit[i].By, play.audit[i].Detail, play.audit[i].ClusterID = markup, reversed+markup, markup
	}
	play.subject, play.named = markup, reversed+markup
	s.admin()
	for name, v := range viewsOf(3) {
		s.goTo(v.path, v.heading)
		s.Until(v.whole)
		s.narrow(name)
		var made int
		s.Eval("document.querySelectorAll('main img, main script, a[href^=\"javascript\"]').length + (document.title === 'hacked' ? 1 : 0)", &made)
		if made != 0 {
			t.Errorf("%s: what things are called became markup", name)
		}
		if name != "create" {
			s.shows(markup)
		}
	}
}
