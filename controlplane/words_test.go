package controlplane_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

// What a syncer holds is told under its own word.
func TestTheAPINamesWhatIsHeldAsRecordsDo(t *testing.T) {
	if record.HeldAhead != v1.DifferenceAhead || record.HeldMissing != v1.DifferenceMissing {
		t.Errorf("records have %q and %q, the API %q and %q", record.HeldAhead, record.HeldMissing, v1.DifferenceAhead, v1.DifferenceMissing)
	}
}

// The API has a name for each phase and each state of a cluster that records have.
func TestTheAPINamesThePhasesOfRecords(t *testing.T) {
	wire := constants(t, "../api/v1/phase.go")
	kept := append(constants(t, "../store/record/word.go", "Phase"), constants(t, "../store/record/word.go", "ClusterState")...)
	// It is told to the cluster alone.
	kept = slices.DeleteFunc(kept, func(word string) bool { return word == `"`+string(record.ClusterRemoved)+`"` })
	var listed []string // what filters take
	for _, word := range append(v1.Phases(), v1.ClusterStates()...) {
		listed = append(listed, strconv.Quote(word))
	}
	slices.Sort(listed)
	slices.Sort(wire)
	slices.Sort(kept)
	if !slices.Equal(wire, listed) {
		t.Errorf("the API has\n%s\nand lists\n%s", strings.Join(wire, " "), strings.Join(listed, " "))
	}
	if len(kept) == 0 || !slices.Equal(wire, kept) {
		t.Errorf("the API has\n%s\nand records have\n%s", strings.Join(wire, " "), strings.Join(kept, " "))
	}
}

// constants are the texts of a file's constants; with types only those of them.
func constants(t *testing.T, file string, types ...string) (texts []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for node := range ast.Preorder(parsed) {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			continue
		}
		name, _ := spec.Type.(*ast.Ident)
		text, ok := spec.Values[0].(*ast.BasicLit)
		if ok && text.Kind == token.STRING && (len(types) == 0 || name != nil && slices.Contains(types, name.Name)) {
			texts = append(texts, text.Value)
		}
	}
	return texts
}
