package manager_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAListShowsEachServiceAsItIsNow: what is as before is not parsed again, and what has changed is.
func TestAListShowsEachServiceAsItIsNow(t *testing.T) {
	answers := []string{
		`[{"name":"a","token":"1"},{"name":"b","token":"1","annotations":{"x":"y"}}]`,
		`[{"name":"b","token":"1","annotations":{"x":"y"}},{"name":"a","token":"2"}]`,
		`[{"name":"a","token":"1"},{"name":"a","token":"1"}]`,
		`[{"name":"a","token":"1"},{"name":"a","token":"1"}]`,
		`[]`,
		`[{"name":"a","token":"1"}]`,
	}
	want := [][]string{{"a1", "b1"}, {"b1", "a2"}, {"a1", "a1"}, {"a1", "a1"}, nil, {"a1"}}
	at := 0
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answers[at])) }))
	for at = range answers {
		services, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range services {
			got = append(got, s.Name+s.Token)
			if s.Name == "b" && s.Annotations["x"] != "y" {
				t.Errorf("list %d: annotations %v", at, s.Annotations)
			}
		}
		if diff := cmp.Diff(want[at], got); diff != "" {
			t.Errorf("list %d: %s", at, diff)
		}
	}
}
