package store

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSpaceLevels(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		member SpaceMember
		alarms []uint64
		want   SpaceLevel
		help   bool // defragmenting helps
	}{
		"empty":                     {SpaceMember{Size: mib, InUse: mib, Quota: 4096 * mib}, nil, SpaceOK, false},
		"much in use":               {SpaceMember{Size: 3600 * mib, InUse: 3500 * mib, Quota: 4096 * mib}, nil, SpaceShort, false},
		"large file, little in use": {SpaceMember{Size: 3950 * mib, InUse: 100 * mib, Quota: 4096 * mib}, nil, SpaceShort, true},
		"free pages will do":        {SpaceMember{Size: 3600 * mib, InUse: 100 * mib, Quota: 4096 * mib}, nil, SpaceOK, false},
		"small quota":               {SpaceMember{Size: 13 * mib, InUse: 2 * mib, Quota: 16 * mib}, nil, SpaceShort, true},
		"tiny quota":                {SpaceMember{Size: mib / 2, InUse: mib / 2, Quota: mib}, nil, SpaceOK, false},
		"no quota":                  {SpaceMember{Size: 1 << 40, InUse: 1 << 40, Quota: -1}, nil, SpaceOK, false},
		"alarm":                     {SpaceMember{Size: mib, InUse: mib, Quota: 4096 * mib}, []uint64{7}, SpaceFull, false},
	} {
		s := Space{Members: []SpaceMember{{Size: 1, InUse: 1, Quota: 1 << 40}, c.member}, alarms: c.alarms}
		s.judge()
		if s.Level != c.want || c.member.defragmentable() != c.help {
			t.Errorf("%s: %s, defragmentable %t", name, s.Level, c.member.defragmentable())
		}
		if c.member.limited() && s.Worst != c.member {
			t.Errorf("%s: the worst is %+v", name, s.Worst)
		}
		if (s.Advice() != "") != s.Tight() {
			t.Errorf("%s: advice %q", name, s.Advice())
		}
	}
}

// Whatever the quota: what the soft limits leave is enough for the puts that must
// go on, and a member without content is never short.
func TestSoftLimitsLeaveRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := rapid.Int64Range(1<<20, 1<<40).Draw(t, "quota")
		m := SpaceMember{Quota: quota}
		if m.crowded() || m.swollen() || m.defragmentable() {
			t.Fatalf("an empty member is short: %+v", m)
		}
		if left := quota - m.sizeLimit(); left < quota/reservePart || left < min(reserveBytes, quota/reserveMost) {
			t.Fatalf("%d of %d bytes are left", left, quota)
		}
	})
}

func TestAdviceSaysWhatToRun(t *testing.T) {
	s := Space{Level: SpaceFull, Denied: true, revision: 4711, Members: []SpaceMember{
		{ID: 1, Endpoint: "https://one.example.org:2379", Leader: true}, {ID: 2, Endpoint: "https://two.example.org:2379"}}}
	s.Commands = s.commands()
	for _, want := range []string{"etcdctl compact --physical 4711", "etcdctl defrag --cluster", "etcdctl alarm disarm"} {
		if !strings.Contains(s.Advice(), want) {
			t.Errorf("%q lacks %q", s.Advice(), want)
		}
	}
	if strings.Contains(s.Advice(), "example.org") {
		t.Errorf("what everybody may read names addresses: %q", s.Advice())
	}
	at := strings.Join(s.commandsAt(), "; ")
	if first, last := strings.Index(at, "two.example.org:2379 defrag"), strings.Index(at, "one.example.org:2379 defrag"); first < 0 || last < first {
		t.Errorf("the leader is not the last: %s", at)
	}
}

func TestPromisedHistoryIsKept(t *testing.T) {
	var r revisions
	began, retention := time.Now(), 10*time.Minute
	at := func(d time.Duration) time.Time { return began.Add(d) }
	for i := range 200 { // a look each 5 s, ten revisions between two
		r.note(at(time.Duration(i)*5*time.Second), int64(10*i), retention)
	}
	now := at(200 * 5 * time.Second)
	got := r.before(now, retention)
	// Ten minutes ago it was revision 800; the moments noted are 30 s apart.
	if got > 800 || got < 700 {
		t.Errorf("a retention ago it was revision %d", got)
	}
	if len(r) > 25 {
		t.Errorf("%d moments are kept", len(r))
	}
	if got := r.before(at(5*time.Minute), retention); got != 0 {
		t.Errorf("before anything is known it is revision %d", got)
	}
	var all revisions
	all.note(began, 5, 0)
	if got := all.before(at(time.Hour), 0); got != 0 {
		t.Errorf("with everything kept: revision %d", got)
	}
}
