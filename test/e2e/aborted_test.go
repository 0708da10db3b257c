package e2e_test

import (
	"strings"
	"testing"
)

// TestAnAbortedCreationIsCalledSo: it is shown as what it is, it is not listed beside its
// successor, and it can be deleted.
func TestAnAbortedCreationIsCalledSo(t *testing.T) {
	w := newWorld(t, onLoopback)
	s := newShell(t, w)
	s.edit("fdl.yaml", lonely, "")
	sim := w.Cluster(b).Sim
	foreign := `{"name":"grayifyr1","image":"foreign","script":"#!/bin/sh"}`
	if err := sim.PutService(foreign); err != nil {
		t.Fatal(err)
	}
	refuse := func(times int) {
		t.Helper()
		s.run(6, "apply", "-f", s.path("fdl.yaml"))
		out, _ := s.run(0, "get", "federations")
		wants(t, out, `^grayifyr0 .* aborted +0/2 `)
		if n := strings.Count(out, "\ngrayifyr0 "); n != 1 {
			t.Errorf("after %d failures it is listed %d times:\n%s", times, n, out)
		}
	}
	refuse(1)
	out, errs := s.run(0, "get", "replicas", "grayifyr0")
	wants(t, out, `^oscar-cluster-a +grayifyr0 +aborted +0 *$`, `^oscar-cluster-b +grayifyr1 +aborted +0 +NameTaken `)
	wants(t, errs, `^grayifyr0: its creation was aborted, and nothing of it is on a cluster; oscarfed delete grayifyr0 forgets it$`)
	out, _ = s.run(0, "describe", "grayifyr0")
	wants(t, out, `^ +its creation was aborted, `)
	s.run(1, "wait", "grayifyr0", "--timeout", "5m")

	s.run(0, "delete", "grayifyr0")
	empty := func() {
		t.Helper()
		s.run(5, "get", "replicas", "grayifyr0")
		s.run(5, "delete", "grayifyr0")
		if out, _ := s.run(0, "get", "federations", "-o", "name"); out != "" {
			t.Errorf("it is listed after its deletion: %s", out)
		}
	}
	empty()

	refuse(2)
	refuse(3)
	w.DeleteDirectly(w.Cluster(b).URL + "/system/services/grayifyr1")
	s.run(0, "apply", "-f", s.path("fdl.yaml"), "--timeout", "5m")
	out, _ = s.run(0, "get", "federations")
	wants(t, out, `^grayifyr0 .* ready +2/2 `)
	if strings.Contains(out, "aborted") {
		t.Errorf("its former creation is listed beside it:\n%s", out)
	}
	s.run(0, "delete", "grayifyr0", "--timeout", "5m")
	empty()
}
