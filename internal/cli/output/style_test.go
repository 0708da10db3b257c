package output_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// A terminal shows every column of a table, and no line is wrapped. A program gets all of it.
func TestATableFitsATerminal(t *testing.T) {
	table := output.NewTable("SERVICE", "CLUSTER", "PHASE", "REASON", "MESSAGE")
	table.Row("grayify", "oscar-cluster-a", "ready", "Applied", strings.Repeat("a long story ", 20))
	table.Row(strings.Repeat("n", 63), strings.Repeat("c", 63), "unreachable", "SyncerIsAway", "ü")
	for _, width := range []int{20, 40, 80, 200} {
		lines := written(t, table, output.Style{Width: width})
		for _, line := range lines {
			if n := len([]rune(line)); n > width {
				t.Errorf("%d characters in %d: %q", n, width, line)
			}
		}
		if width >= 60 && !strings.Contains(lines[0], "MESSAGE") {
			t.Errorf("in %d characters a column is lost: %q", width, lines[0])
		}
		if width >= 80 && (!strings.Contains(lines[1], "ready") || !strings.Contains(lines[2], "unreachable")) {
			t.Errorf("in %d characters: %q", width, lines)
		}
	}
	if all := strings.Join(written(t, table, output.Style{}), "\n"); strings.Contains(all, "…") || strings.Count(all, "a long story") != 20 {
		t.Errorf("something is cut: %s", all)
	}
}

// What is least wanted is left out before names are cut.
func TestColumnsThatDoNotFitAreLeftOut(t *testing.T) {
	table := output.NewTable("CLUSTER", "ENDPOINT", "STATE", "GROUPS", "REASON").Optional("ENDPOINT", "GROUPS")
	table.Row("oscar-cluster-a-of-valencia", "https://oscar.example.org", "active", "physics,chemistry", "OscarUnreachable")
	for width, want := range map[int]string{
		0:  "CLUSTER ENDPOINT STATE GROUPS REASON",
		85: "CLUSTER ENDPOINT STATE GROUPS REASON",
		70: "CLUSTER STATE GROUPS REASON",
		55: "CLUSTER STATE REASON",
	} {
		lines := written(t, table, output.Style{Width: width})
		if got := strings.Join(strings.Fields(lines[0]), " "); got != want {
			t.Errorf("in %d characters: %s", width, got)
		}
		if !strings.HasPrefix(lines[1], "oscar-cluster-a-of-valencia") {
			t.Errorf("in %d characters: %s", width, lines[1])
		}
		if got := written(t, table.WithoutHead(), output.Style{Width: width}); got[0] != lines[1] {
			t.Errorf("without its head: %q; want %q", got[0], lines[1])
		}
	}
}

// Colours change no column, and a name is no state.
func TestStatesHaveColours(t *testing.T) {
	table := output.NewTable("SERVICE", "PHASE", "AGE")
	table.Row("ready", "ready", "1h")
	table.Row("plants", "failed", "2h")
	table.Row("else", "ready or not", "3h")
	want := []string{
		"SERVICE   PHASE          AGE",
		"ready     \x1b[32mready\x1b[0m          1h",
		"plants    \x1b[31mfailed\x1b[0m         2h",
		"else      ready or not   3h",
	}
	got := written(t, table, output.Style{Colour: true})
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q; want %q", got[i], want[i])
		}
	}
	if plain := strings.Join(written(t, table, output.Style{}), ""); strings.Contains(plain, "\x1b") {
		t.Errorf("%q", plain)
	}
}

func written(t *testing.T, table *output.Table, style output.Style) []string {
	t.Helper()
	var b bytes.Buffer
	if err := table.Write(&b, style); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}
