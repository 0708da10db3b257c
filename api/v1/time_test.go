package v1_test

import (
	"encoding/json"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

func TestTime(t *testing.T) {
	east := time.FixedZone("east", 2*3600)
	tests := map[string]time.Time{
		`"2026-11-20T13:04:05.120Z"`: time.Date(2026, 11, 20, 15, 4, 5, 120_900_000, east),
		`"2026-11-20T12:58:41.000Z"`: time.Date(2026, 11, 20, 12, 58, 41, 0, time.UTC),
		`"0001-01-01T00:00:00.000Z"`: {},
	}
	for want, in := range tests {
		got, err := json.Marshal(v1.Time{Time: in})
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", in, got, err, want)
		}
		var back v1.Time
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(in.Truncate(time.Millisecond)) {
			t.Errorf("%s: read as %v, %v", got, back, err)
		}
	}
	for _, bad := range []string{`1`, `"yesterday"`, `"2026-11-20"`, `{}`} {
		var v v1.Time
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s was read as %v", bad, v)
		}
	}
}
