package logring

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheLastLinesAreKept(t *testing.T) {
	r := New(100)
	if got := r.Bytes(); len(got) != 0 {
		t.Errorf("an empty ring has %q", got)
	}
	for i := range 50 {
		line := []byte(fmt.Sprintf("line %02d\n", i))
		if n, err := r.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		copy(line, "changed!")
	}
	got := string(r.Bytes())
	if len(got) > 100 || !strings.HasPrefix(got, "line 38\n") || !strings.HasSuffix(got, "line 49\n") || strings.Contains(got, "changed") {
		t.Errorf("%q", got)
	}
	if _, err := r.Write(make([]byte, 200)); err != nil || len(r.Bytes()) != 0 {
		t.Error("a line that is too long is kept")
	}
}
