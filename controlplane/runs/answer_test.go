package runs

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// One list of buckets from a hostile cluster took half a gigabyte of the control plane, for any user who asked for his.
func TestAListOfEmptyEntriesTakesLittleMemory(t *testing.T) {
	read := func(answer string) ([]v1.Bucket, error) {
		return entriesOf[v1.Bucket](identity.Caller{}, v1.BucketsRoute(), reply{
			target: target{Replica: relay.Replica{Cluster: "hostile"}},
			resp:   &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))},
		})
	}
	list := func(entry string) string {
		return "[" + strings.Repeat(entry+",", v1.MaxForwardAnswer/(len(entry)+1)-1) + entry + "]"
	}
	for _, entry := range []string{`{}`, `null`, `0`, `[]`, `{"objects":[{},{},{},{},{},{},{},{}]}`} {
		answer := list(entry)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := read(answer)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "cluster hostile") || took > 64<<20 {
			t.Errorf("a list of %s: %d entries, error %v, and %d MiB of memory", entry, len(got), err, took>>20)
		}
	}
	var rows []string
	for i := range 10_000 {
		rows = append(rows, fmt.Sprintf(`{"bucket_name":"bucket-%d","visibility":"restricted","allowed_users":["[{,]}","\"\\"],"owner":"ann","metadata":{"a":"b"},`+
			`"storage_quota":{"max":"1Gi","max_bytes":1073741824,"source":"cluster"},"attribution":"owner"}`, i))
	}
	if got, err := read("[" + strings.Join(rows, ",") + "]"); err != nil || len(got) != len(rows) || got[9_999].AllowedUsers[0] != "[{,]}" {
		t.Errorf("%d of %d buckets, error %v", len(got), len(rows), err)
	}
}

func TestValuesAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `null`: 0, `[]`: 1, `[{},{}]`: 4, `{"a":"{[,\"{","b":1}`: 2, `["\\",["\""]]`: 3, `"`: 0, `"\`: 0,
	} {
		if got := countValues([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
