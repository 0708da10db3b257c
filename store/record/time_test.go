package record

import (
	"encoding/json"
	"testing"
	"time"
)

// A record with a time that cannot be read is taken for none, and stays for ever.
func TestEachTimeCanBeRead(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Unix(1<<40, 1), time.Unix(-1<<40, 1), time.UnixMilli(1<<48 - 1), time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)),
		time.Date(2026, 11, 20, 13, 4, 5, 6_000_000, time.UTC),
	} {
		raw, err := Encode(At(at))
		var got Time
		if err != nil || json.Unmarshal(raw, &got) != nil || !got.Equal(At(at).Time) {
			t.Errorf("%v is written as %s, and read as %v: %v", at, raw, got, err)
		}
	}
}
