package ui_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/test/world"
)

// TestMembersComeAndGo by the page, with the plan.
func TestMembersComeAndGo(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}})
	if status, _, body := w.Do("POST", "/system/services", `{"name":"grayify","cluster_id":"oscar-cluster-a","image":"i","script":"true","memory":"256Mi","cpu":"0.1",
		"federation":{"topology":"star","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayify","priority":0}]}}`); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	s := open(t, w)
	s.admin()
	s.goTo("/federations", "Federations")
	s.Click("grayify")
	s.Click("Add members …")
	s.pick("oscar-cluster-c")
	s.Click("Show the plan")
	s.Until("[...document.querySelectorAll('dialog[open] .plan .state')].some((e) => e.textContent === 'Create')")
	s.accessible("add members")
	s.look("members-add")
	s.Click("Add them")
	s.Until("document.querySelectorAll('tbody tr').length === 3 && !document.querySelector('dialog[open]')")
	s.Until("document.querySelector('.summary .state.ok')")
	s.Eval("document.querySelector('[aria-label=\"Remove oscar-cluster-b/grayify\"]').click()", nil)
	s.Until("[...document.querySelectorAll('dialog[open] .plan .state')].some((e) => e.textContent === 'Remove')")
	s.accessible("remove a member")
	s.look("members-remove")
	s.Click("Remove the member")
	s.Until("document.querySelectorAll('tbody tr').length === 2")
	w.Eventually("the service is gone there", func() bool {
		_, there := w.Cluster("oscar-cluster-b").Sim.Service("grayify")
		return !there
	})
}
