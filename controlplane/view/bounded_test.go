package view

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

// What is kept of a syncer's text is as long in JSON as is allowed, and ends whole.
func TestTextsOfSyncersAreBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		n    int
		want string
	}{
		"empty":                     {"", 10, ""},
		"as long as is allowed":     {"0123456789", 10, "0123456789"},
		"longer":                    {"0123456789a", 10, "0123456..."},
		"two bytes in JSON":         {"\"\"\"\"\"\n", 10, `"""...`},
		"a letter of several bytes": {"012345€€", 10, "012345..."},
		"letters that fit":          {"0123€€", 10, "0123€€"},
		"control characters":        {"a\x00b\r\x7fc\u2028d\xff", 20, "a b  c d "},
		"a line and a tab":          {"a\nb\tc", 10, "a\nb\tc"},
	} {
		got := bounded(tt.text, tt.n)
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if raw, err := json.Marshal(got); err != nil || len(raw)-2 > tt.n {
			t.Errorf("%s: %s takes %d bytes, error %v", name, raw, len(raw)-2, err)
		}
	}
}

func BenchmarkBoundSentences(b *testing.B) {
	long := strings.Repeat("x", MaxReportMessage)
	members := make([]record.Member, 50)
	b.ReportAllocs()
	for b.Loop() {
		for i := range members {
			members[i].Cause, members[i].Rollback = &record.Failure{Message: long}, &record.Rollback{Message: long}
		}
		BoundSentences(members, 0)
	}
}
