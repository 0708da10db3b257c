package record_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

// TestEveryWordIsKnown holds the words that Strange knows to the constants of their types.
func TestEveryWordIsKnown(t *testing.T) {
	strange := map[string]func(word string) string{
		"Intent":       func(w string) string { return record.Strange(&record.Desired{Intent: record.Intent(w)}) },
		"Phase":        func(w string) string { return record.Strange(&record.Federation{Phase: record.Phase(w)}) },
		"ClusterState": func(w string) string { return record.Strange(&record.Cluster{State: record.ClusterState(w)}) },
		"JobState":     func(w string) string { return record.Strange(&record.Job{State: record.JobState(w)}) },
		"HoldOrder":    func(w string) string { return record.Strange(&record.Hold{Order: record.HoldOrder(w)}) },
		"OfferWord":    func(w string) string { return record.Strange(&record.OfferAnswer{Answer: record.OfferWord(w)}) },
	}
	for name, of := range strange {
		words := constantsOf(t, name)
		if len(words) == 0 {
			t.Errorf("there are no constants of type %s", name)
		}
		for _, word := range words {
			if got := of(word); got != "" {
				t.Errorf("%s is not known: %s", name, got)
			}
		}
		if got := of("of_tomorrow"); !strings.HasSuffix(got, ` "of_tomorrow"`) {
			t.Errorf("an unknown %s is %q", name, got)
		}
	}
}

func TestAWordThatIsNotKnownIsNamedWithItsField(t *testing.T) {
	for want, rec := range map[string]any{
		"":                          &record.Desired{Intent: record.IntentDelete, Data: "delete", Jobs: "cancel", Keep: "release", Cause: "anything", Drift: "report"},
		`keep "archive"`:            &record.Desired{Intent: record.IntentDelete, Keep: "archive"},
		`data "zip"`:                record.Desired{Intent: record.IntentDelete, Data: "zip"},
		`deployment "canary"`:       &record.Federation{Phase: record.PhaseReady, Deployment: "canary"},
		`change.delegation "price"`: &record.Federation{Change: &record.Change{Delegation: "price"}},
	} {
		if got := record.Strange(rec); got != want {
			t.Errorf("it is %q, not %q", got, want)
		}
	}
	if got := record.Strange((*record.Desired)(nil)); got != "" {
		t.Errorf("of no record it is %q", got)
	}
}

// constantsOf reads the values of all constants of a type from the source.
func constantsOf(t *testing.T, of string) []string {
	t.Helper()
	var out []string
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != of {
				return true
			}
			for _, value := range spec.Values {
				if lit, ok := value.(*ast.BasicLit); ok {
					word, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, word)
				}
			}
			return true
		})
	}
	return slices.DeleteFunc(out, func(word string) bool { return word == "" })
}
