package services

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// federationOver has n replicas a/s0, a/s1 ..., of which the first is the coordinator, and
// an endpoint when url is given.
func federationOver(n int, url string, edge func(from, to int) bool) *v1.Federation {
	f := &v1.Federation{}
	names := make([]string, 0, n+1)
	for i := range n {
		f.Replicas = append(f.Replicas, v1.Replica{ClusterID: "a", ServiceName: fmt.Sprintf("s%d", i)})
		names = append(names, fmt.Sprintf("a/s%d", i))
	}
	f.Coordinator.ClusterID, f.Coordinator.ServiceName = "a", "s0"
	if url != "" {
		f.Replicas = append(f.Replicas, v1.Replica{Type: "endpoint", URL: url})
		names = append(names, url)
	}
	for from := range n {
		for to, name := range names {
			if to != from && edge(from, to) {
				f.Edges = append(f.Edges, [2]string{names[from], name})
			}
		}
	}
	return f
}

func TestAMeshOf22IsOneLine(t *testing.T) {
	all := func(int, int) bool { return true }
	star := func(from, _ int) bool { return from == 0 }
	const endpoint = "https://elsewhere.example.org"
	for name, tc := range map[string]struct {
		federation *v1.Federation
		want       string
	}{
		"mesh":                  {federationOver(22, "", all), "mesh   22 replicas, and each lists the 21 other members; coordinator a/s0\n"},
		"mesh and an endpoint":  {federationOver(3, endpoint, all), "mesh   3 replicas, and each lists the 3 other members; coordinator a/s0\n"},
		"star":                  {federationOver(22, "", star), "star   a/s0 alone lists the 21 other members\n"},
		"star and an endpoint":  {federationOver(3, endpoint, star), "star   a/s0 alone lists the 3 other members\n"},
		"one with an endpoint":  {federationOver(1, endpoint, all), "star   a/s0 alone lists the other member\n"},
		"nobody lists anybody":  {federationOver(5, "", func(int, int) bool { return false }), "none   5 replicas, and each lists nobody\n"},
		"a service alone":       {federationOver(1, "", all), ""},
		"a worker lists one":    {federationOver(3, "", func(from, to int) bool { return from == 0 || from == 2 && to == 0 }), "a/s0   ->   a/s1, a/s2   (coordinator)\na/s1   ->   nobody\na/s2   ->   a/s0\n"},
		"the wrong one is full": {federationOver(3, "", func(from, _ int) bool { return from == 1 }), "a/s0   ->   nobody       (coordinator)\na/s1   ->   a/s0, a/s2\na/s2   ->   nobody\n"},
	} {
		var b strings.Builder
		if err := graph(tc.federation).Write(&b, output.Style{}); err != nil {
			t.Fatal(err)
		}
		if b.String() != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, b.String(), tc.want)
		}
	}
}

// TestAnIrregularGraphHasShortLines has a mesh of 30 in which one edge is missing.
func TestAnIrregularGraphHasShortLines(t *testing.T) {
	f := federationOver(30, "", func(from, to int) bool { return from != 3 || to != 4 })
	var b strings.Builder
	if err := graph(f).Write(&b, output.Style{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 30 || !strings.Contains(lines[3], "a/s0, a/s1, a/s2, a/s5 and 24 more") {
		t.Errorf("%d lines, the fourth %q", len(lines), lines[3])
	}
}

// A drawing is XML whatever members are called, names each of them, and has a line for each pair.
func TestADrawnGraphHasEveryMemberOnce(t *testing.T) {
	all := func(int, int) bool { return true }
	star := func(from, _ int) bool { return from == 0 }
	for name, tc := range map[string]struct {
		f     *v1.Federation
		lines int
		heads int
	}{
		"mesh": {federationOver(120, "", all), 120 * 119 / 2, 0}, "star": {federationOver(5, "https://e.example.org/<&", star), 5, 5}, "alone": {federationOver(1, "", all), 0, 0},
	} {
		tc.f.GroupID = "\x1b[31m</title><script>"
		text := svg(tc.f)
		decoder := xml.NewDecoder(strings.NewReader(text))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
				t.Errorf("%s has a script", name)
			}
		}
		if n := strings.Count(text, `class="edge"`); n != tc.lines {
			t.Errorf("%s: %d lines, not %d", name, n, tc.lines)
		}
		if n := strings.Count(text, "marker-end"); n != tc.heads {
			t.Errorf("%s: %d heads, not %d", name, n, tc.heads)
		}
		if n := strings.Count(text, "<text "); n != len(tc.f.Replicas) {
			t.Errorf("%s: %d names", name, n)
		}
		if strings.Contains(text, "NaN") {
			t.Errorf("%s: a place is no number", name)
		}
	}
}
