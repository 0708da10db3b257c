// Package model_test compares whole federations with a simple model of what their
// users may rely on. Random operations (creations, changes, deletions, changes
// of replicas at their OSCARs, clusters that go and return, OSCARs that misbehave,
// restarts, time that passes) are done to both; every answer must be one that the
// model allows, and when everything is in order again the OSCARs must hold what
// the model says. Every revision of the store is checked besides (test/invariants).
//
//	go test ./test/model                                   the short form: always the same runs
//	go test ./test/model -rapid.checks=5000 -timeout=4h     the long one: others each time
//	go test ./test/model -rapid.checks=1 -rapid.seed=N     one of them again
//
// With -artifacts the log of all parts of a run that failed is kept.
package model_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// shortChecks and shortSeed are the runs of `go test` without flags.
const (
	shortChecks = "12"
	shortSeed   = "1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["rapid.checks"] && !given["rapid.failfile"] {
		for name, value := range map[string]string{"rapid.checks": shortChecks, "rapid.seed": shortSeed} {
			if !given[name] {
				_ = flag.Set(name, value)
			}
		}
	}
	os.Exit(m.Run())
}

func TestFederationsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { inVirtualTime(t, func(t *testing.T) { live(t, rt) }) })
}

// inVirtualTime runs in a bubble, and passes on what has ended the run: a panic of rapid's,
// which would end the program where the bubble begins.
func inVirtualTime(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	var thrown any
	synctest.Test(t, func(t *testing.T) {
		defer func() { thrown = recover() }()
		run(t)
	})
	if thrown != nil {
		panic(thrown)
	}
}

// live is one run.
func live(t *testing.T, rt *rapid.T) {
	t.Helper()
	l := newLife(t)
	defer l.end(rt)
	m := newMachine(l)
	defer m.keepLog(t, rt)
	rt.Repeat(map[string]func(*rapid.T){
		"":               m.check,
		"create":         m.create,
		"create another": m.create,
		"create again":   m.again,
		"put":            m.put,
		"members":        m.members,
		"members, too":   m.members,
		"rollback":       m.rollback,
		"remove":         m.remove,
		"view":           m.view,
		"pause":          m.pauseFederation,
		"away":           m.away,
		"syncer":         m.syncer,
		"fault":          m.fault,
		"restart":        m.restart,
		"cordon":         m.cordon,
		"time":           m.time,
		"instance":       m.instance,
		"upload":         m.upload,
		"strange":        m.strange,
		"drift":          m.drift,
		"drift, too":     m.drift,
		"settle":         m.settle,
	})
	m.settle(rt)
}

// keepLog keeps what all parts logged in a run that failed.
func (m *machine) keepLog(t *testing.T, rt *rapid.T) {
	t.Helper()
	if rt.Failed() || m.l.Failed() {
		path := filepath.Join(t.ArtifactDir(), "log.jsonl")
		if err := os.WriteFile(path, []byte(m.w.Log.String()), 0o600); err == nil {
			rt.Logf("the log of all parts: %s", path)
		}
	}
}
