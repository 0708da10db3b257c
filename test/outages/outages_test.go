//go:build linux

package outages_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/test/machines"
	"github.com/oscarfed/oscarfed/test/process"
)

// timeVar is how long a fault lasts, as 40s. Without it few faults are tried, each for some seconds, and
// nobody asks what fires.
const timeVar = "OUTAGETIME"

var update = flag.Bool("update", false, "write the table of docs/operations.md")

const (
	page  = "../../docs/operations.md"
	first = "<!-- made by make outages -->\n"
	last  = "<!-- the end of what make outages makes -->\n"
)

// outage is one row: on one machine one thing goes wrong.
type outage struct {
	// on says which machine of a scene, with the name that the table has.
	on where
	// what goes wrong.
	what string
	// begin breaks it, mend ends that.
	begin, mend func(s *scene)
	// alerts fire when it goes on, others may as well.
	alerts, others []string
	// brief says that `make test` tries it.
	brief bool
}

// where is a kind of machine.
type where string

const (
	leader       where = "etcd's leader"
	follower     where = "a follower of etcd"
	controlPlane where = "a control plane"
)

// place sets what the fault is on.
func (w where) place(s *scene) {
	if w == controlPlane {
		name := process.ControlPlaneName(1)
		s.apart = s.hosts[members+1]
		s.broken = func() *process.Child { return s.Child(name) }
		s.restart = func() error { _, err := s.StartControlPlane(s.t.Context(), name, ""); return err }
		return
	}
	k := s.leader()
	if w == follower {
		k = (k + 1) % members
	}
	s.apart = s.hosts[k]
	s.broken = func() *process.Child { return s.etcd.Child(k) }
	s.restart = func() error { return s.etcd.Restart(k) }
}

// slowSync is how long a slow disk takes for one write.
const slowSync = 2 * time.Second

// faults are what may happen to each machine.
func faults(on where, gone, full, slow []string) []outage {
	return []outage{
		{on: on, what: "killed", alerts: gone, begin: func(s *scene) { s.broken().Kill() }, mend: (*scene).again},
		{on: on, what: "frozen", alerts: gone, brief: on == leader, begin: func(s *scene) { s.broken().Freeze() }, mend: func(s *scene) { s.broken().Thaw() }},
		{on: on, what: "cut off: nobody hears it", alerts: gone, brief: on == controlPlane, begin: func(s *scene) { s.apart.Mute() }, mend: func(s *scene) { s.apart.Mend() }},
		{on: on, what: "cut off: it hears nobody", alerts: gone, begin: func(s *scene) { s.apart.Deafen() }, mend: func(s *scene) { s.apart.Mend() }},
		{on: on, what: "disk full", alerts: full, begin: func(s *scene) { s.apart.Fill(); s.supervise() }, mend: func(s *scene) { s.apart.Empty(); s.again() }},
		{on: on, what: "disk slow", alerts: slow, others: []string{"OscarfedEtcdMemberSilent", "OscarfedEtcdSlow"}, begin: func(s *scene) { s.apart.Slow(slowSync) }, mend: func(s *scene) { s.apart.Slow(0) }},
	}
}

func table() []outage {
	silent := []string{"OscarfedEtcdMemberSilent"}
	slow := []string{"OscarfedEtcdMemberSlow"}
	out := slices.Concat(faults(leader, silent, silent, slow), faults(follower, silent, silent, slow),
		faults(controlPlane, []string{"OscarfedControlPlaneDown"}, nil, nil))
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		what := "its clock an hour ahead"
		if ahead < 0 {
			what = "its clock an hour behind"
		}
		out = append(out, outage{on: controlPlane, what: what, alerts: []string{"OscarfedClockApart"}, begin: func(s *scene) { s.clock(ahead) }, mend: func(s *scene) { s.clock(0) }})
	}
	return out
}

// again starts the program that the fault is on, if it has ended.
func (s *scene) again() {
	s.t.Helper()
	if s.supervised != nil {
		s.supervised()
	}
	if s.broken().Ended() {
		if err := s.restart(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// supervise starts the program again whenever it has ended, until the fault is mended.
func (s *scene) supervise() {
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
				return
			}
			if s.broken().Ended() {
				_ = s.restart() // it may end again at once
			}
		}
	}()
	s.supervised = func() {
		stop()
		<-done
	}
}

// clock starts the control plane anew with a clock that is wrong.
func (s *scene) clock(ahead time.Duration) {
	s.t.Helper()
	if err := s.broken().Stop(); err != nil {
		s.t.Fatal(err)
	}
	s.ahead[process.ControlPlaneName(1)] = ahead
	if err := s.restart(); err != nil {
		s.t.Fatal(err)
	}
}

// TestWhatCallersSeeOfAFault breaks one machine of six for a time, while callers read, create and send jobs.
// All that was accepted becomes true, callers see nothing of it any more soon after its end, and the alerts
// fire that docs/operations.md names.
func TestWhatCallersSeeOfAFault(t *testing.T) {
	machines.Needed(t)
	lasts := 4 * time.Second
	whole := os.Getenv(timeVar) != ""
	if whole {
		var err error
		if lasts, err = time.ParseDuration(os.Getenv(timeVar)); err != nil {
			t.Fatalf("%s: %v", timeVar, err)
		}
	}
	var rows []string
	for _, o := range table() {
		if !whole && !o.brief {
			continue
		}
		t.Run(fmt.Sprintf("%s: %s", o.on, o.what), func(t *testing.T) {
			rows = append(rows, o.try(t, lasts, whole))
			t.Log(rows[len(rows)-1])
		})
	}
	if *update && whole && !t.Failed() {
		write(t, rows)
	}
}

// try breaks it, and gives the row of the table.
func (o outage) try(t *testing.T, lasts time.Duration, whole bool) string {
	s := newScene(t)
	o.on.place(s)
	scraping, stop := context.WithCancel(t.Context())
	defer stop()
	scraped := s.scrape(scraping)
	c := s.call()
	defer c.end()
	<-time.After(2 * scrapeInterval)
	began := time.Now()
	o.begin(s)
	<-time.After(lasts)
	stop()
	prometheus := scraped()
	o.mend(s)
	c.awaitCalm(whole)
	c.end()
	s.judge(c)
	if whole {
		prometheus.fired(o.alerts, o.others)
	}
	told := "none"
	if len(o.alerts) > 0 {
		told = "[" + o.alerts[0] + "](#" + strings.ToLower(o.alerts[0]) + ")"
	}
	return fmt.Sprintf("| %s: %s | %s | %s | %s | %s |", o.on, o.what, c.seen(reads, began), c.seen(writes, began), c.seen(patient, began), told)
}

// written are the page before the table, the table and what is behind it.
func written(t *testing.T) (before, rows, behind string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), first)
	rows, behind, ok2 := strings.Cut(rest, last)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	return before, rows, behind
}

func write(t *testing.T, rows []string) {
	t.Helper()
	before, _, behind := written(t)
	var out bytes.Buffer
	out.WriteString(before + first)
	out.WriteString("| Fault | Reads | Writes | `oscarfed` | Alert |\n|---|---|---|---|---|\n")
	for _, row := range rows {
		out.WriteString(row + "\n")
	}
	out.WriteString(last + behind)
	if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTheTableHasEachFault: docs/operations.md tells of all faults that are tried, and of no other.
func TestTheTableHasEachFault(t *testing.T) {
	_, rows, _ := written(t)
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	all := table()
	if len(lines) != len(all)+2 {
		t.Fatalf("%s has %d rows, not %d: make outages writes them", page, len(lines)-2, len(all))
	}
	for i, o := range all {
		line := lines[i+2]
		if !strings.HasPrefix(line, fmt.Sprintf("| %s: %s |", o.on, o.what)) {
			t.Errorf("%s: %q is not of %s: %s", page, line, o.on, o.what)
		}
		for _, alert := range o.alerts {
			if !strings.Contains(line, alert) {
				t.Errorf("%s: %q does not name %s", page, line, alert)
			}
		}
	}
}
