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

	"github.com/oscarfed/oscarfed/api/oscar"
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

// TestRecordsKnowTheWordsOfDefinitions: a word that a definition may have and a record's tag
// lacks makes a record that the instance which wrote it leaves as it is. The words are those
// that the refusal of an unknown one offers.
func TestRecordsKnowTheWordsOfDefinitions(t *testing.T) {
	for field, set := range map[string]func(*oscar.Federation, *record.Federation, string){
		"topology": func(f *oscar.Federation, r *record.Federation, w string) {
			f.Topology, r.Topology, r.Change = w, w, &record.Change{Topology: w}
		},
		"delegation": func(f *oscar.Federation, r *record.Federation, w string) {
			f.Delegation, r.Delegation, r.Change = w, w, &record.Change{Delegation: w}
		},
		"deployment": func(f *oscar.Federation, r *record.Federation, w string) { f.Deployment, r.Deployment = w, w },
		"drift": func(f *oscar.Federation, r *record.Federation, w string) {
			f.Drift, r.Drift, r.Change = w, w, &record.Change{Drift: w}
		},
	} {
		definition := &oscar.Service{Name: "svc", Image: "i", Script: "s", Federation: &oscar.Federation{}}
		set(definition.Federation, &record.Federation{}, "unknown")
		violations := oscar.Validate(definition)
		if len(violations) != 1 {
			t.Fatalf("an unknown %s: %v", field, violations)
		}
		_, offered, ok := strings.Cut(violations[0].Message, "; use ")
		if !ok {
			t.Fatalf("an unknown %s: %s", field, violations[0].Message)
		}
		words := strings.FieldsFunc(strings.ReplaceAll(offered, " or ", ","), func(r rune) bool { return r == ',' || r == ' ' })
		if len(words) < 2 {
			t.Fatalf("an unknown %s: %s", field, violations[0].Message)
		}
		for _, word := range words {
			rec := &record.Federation{}
			set(&oscar.Federation{}, rec, word)
			if strange := record.Strange(rec); strange != "" {
				t.Errorf("a definition may have the %s %q, which records do not know: %s", field, word, strange)
			}
		}
	}
}
