package boot

import (
	"net"
	"strings"
	"testing"
)

// "context deadline exceeded" was all that the log said of an etcd whose address was wrong.
func TestAnEtcdThatIsNotReachedIsToldWithWhatAConnectionMeets(t *testing.T) {
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	const refusing = "https://127.0.0.1:1" // no port that another test may be given
	got := unreached(t.Context(), []string{refusing, "http://" + listening.Addr().String()})
	for _, want := range []string{refusing + ": ", "connection refused", "http://" + listening.Addr().String() + ": it takes connections", "is http:// right?"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
