package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/oscarfed/oscarfed/internal/boot"
)

var update = flag.Bool("update", false, "write reference.md anew")

// daemon is what the flags of a daemon are read into: those that all daemons have, and its own.
type daemon[T any] struct {
	Config  string           `placeholder:"FILE" help:"YAML file with the same names in snake_case."`
	Version kong.VersionFlag `help:"Print the version."`
	Daemon  T                `embed:""`
}

// TestTheReferenceIsThatOfTheCode: reference.md has the flags and metrics of the code, with
// the texts of the code. `go test ./docs -update` writes it.
func TestTheReferenceIsThatOfTheCode(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Reference\n\n" +
		"Made from the code by `go test ./docs -update`; a test holds it. How settings are given, and what\n" +
		"matters besides: [configuration.md](configuration.md).\n")
	flagsOf(t, &out, "oscar-controlplane", &daemon[boot.ControlPlane]{})
	flagsOf(t, &out, "oscar-controlplane etcd-gateway", &daemon[boot.Gateway]{})
	flagsOf(t, &out, "oscar-syncer", &daemon[boot.Syncer]{})
	out.WriteString("\n## Metrics\n\n")
	for _, m := range metrics(t) {
		item(&out, m.name, strings.Join(m.labels, ", "), m.help)
	}
	if *update {
		if err := os.WriteFile("reference.md", []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if page(t, "reference.md") != out.String() {
		t.Error("reference.md is not what the code says: go test ./docs -update")
	}
}

// flagsOf writes the table of a daemon's flags.
func flagsOf(t *testing.T, out *strings.Builder, name string, options any) {
	t.Helper()
	parser, err := kong.New(options, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "\n## %s\n\n", name)
	for _, f := range parser.Model.Flags {
		def := ""
		switch {
		case f.Required:
			def = "**required**"
		case f.Default != "":
			def = "`" + f.Default + "`"
		}
		item(out, "--"+f.Name, def, f.Help)
	}
}

// item writes an item of a list in lines of at most 100 characters.
func item(out *strings.Builder, name, more, help string) {
	line := "- `" + name + "`"
	if more != "" {
		line += " (" + more + ")"
	}
	for word := range strings.FieldsSeq(":" + " " + help) {
		switch {
		case word == ":":
			line += word
		case len(line)+1+len(word) > 100:
			out.WriteString(line + "\n")
			line = "  " + word
		default:
			line += " " + word
		}
	}
	out.WriteString(line + "\n")
}

type metric struct {
	name, help string
	labels     []string
}

// metrics are all that the code makes, in its order: literals with a Name and a Help, and the
// labels that are handed over with them.
func metrics(t *testing.T) []*metric {
	t.Helper()
	var found []*metric
	sources(t, ".go", func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || !strings.Contains(text, `"oscarfed_`) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		literal, variable := map[*ast.CompositeLit]*metric{}, map[string]*metric{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt: // gauge := prometheus.GaugeOpts{...}
				if lit, ok := n.Rhs[0].(*ast.CompositeLit); ok {
					literal[lit] = metricOf(t, lit)
					if name, ok := n.Lhs[0].(*ast.Ident); ok {
						variable[name.Name] = literal[lit]
					}
				}
			case *ast.CompositeLit:
				if literal[n] == nil {
					literal[n] = metricOf(t, n)
				}
				if literal[n] != nil {
					found = append(found, literal[n])
				}
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			var of *metric
			switch first := call.Args[0].(type) {
			case *ast.CompositeLit:
				of = literal[first]
			case *ast.SelectorExpr: // prometheus.NewDesc(gauge.Name, ...)
				if x, ok := first.X.(*ast.Ident); ok {
					of = variable[x.Name]
				}
			}
			for _, arg := range call.Args[1:] {
				if of != nil {
					of.labels = append(of.labels, texts(arg)...)
				}
			}
			return true
		})
	})
	return found
}

// metricOf reads the options of a metric; nil when the literal is something else.
func metricOf(t *testing.T, lit *ast.CompositeLit) *metric {
	t.Helper()
	fields := map[string]string{}
	for _, elt := range lit.Elts {
		if pair, ok := elt.(*ast.KeyValueExpr); ok {
			key, named := pair.Key.(*ast.Ident)
			value, isText := pair.Value.(*ast.BasicLit)
			if named && isText && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				fields[key.Name] = text
			}
		}
	}
	if !strings.HasPrefix(fields["Name"], "oscarfed_") {
		return nil
	}
	if fields["Help"] == "" {
		t.Errorf("%s has no help", fields["Name"])
	}
	return &metric{name: fields["Name"], help: fields["Help"]}
}

// texts are the strings of a []string{...}, each as code.
func texts(arg ast.Expr) []string {
	lit, ok := arg.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	if _, list := lit.Type.(*ast.ArrayType); !list {
		return nil
	}
	var out []string
	for _, elt := range lit.Elts {
		if text, ok := elt.(*ast.BasicLit); ok {
			out = append(out, "`"+strings.Trim(text.Value, `"`)+"`")
		}
	}
	return out
}
