package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// variable is the environment variable with the number of the defect that a binary is to have.
const variable = "OSCARFED_PLANTED"

// switched is a Go file that has all of its variants beside the original. A function that differs
// in variant n has a twin with its text, which is called instead when the environment says n.
func switched(name string, original []byte, variants map[int][]byte) ([]byte, error) {
	was, err := functions(name, original)
	if err != nil {
		return nil, err
	}
	chosen := "planted" + strings.NewReplacer("/", "_", ".", "_").Replace(name)
	var inserts []insert
	var twins strings.Builder
	for _, n := range slices.Sorted(maps.Keys(variants)) {
		now, err := functions(name, variants[n])
		if err != nil {
			return nil, fmt.Errorf("defect %d: %w", n, err)
		}
		differs := 0
		for key, f := range now {
			old, ok := was[key]
			if !ok {
				return nil, fmt.Errorf("defect %d: %s has no function %s", n, name, key)
			}
			if old.text == f.text {
				continue
			}
			differs++
			call, err := old.call(fmt.Sprintf("%sPlanted%d", f.decl.Name.Name, n))
			if err != nil {
				return nil, fmt.Errorf("defect %d: %w", n, err)
			}
			inserts = append(inserts, insert{old.body, fmt.Sprintf("\n\tif %s == \"%d\" {\n\t\t%s\n\t}\n", chosen, n, call)})
			fmt.Fprintf(&twins, "\n%s%sPlanted%d%s\n", f.text[:f.nameEnd-len(f.decl.Name.Name)], f.decl.Name.Name, n, f.text[f.nameEnd:])
		}
		if differs == 0 {
			return nil, fmt.Errorf("defect %d changes no function of %s", n, name)
		}
	}
	at, imports := strings.Index(string(original), "\nimport "), "\nimport plantedos \"os\"\n"
	if at < 0 {
		return nil, fmt.Errorf("%s imports nothing", name)
	}
	inserts = append(inserts, insert{at, imports})
	fmt.Fprintf(&twins, "\nvar %s = plantedos.Getenv(%q)\n", chosen, variable)
	return append(apply(original, inserts), twins.String()...), nil
}

// insert is a text that comes before an offset.
type insert struct {
	at   int
	text string
}

func apply(text []byte, inserts []insert) []byte {
	slices.SortStableFunc(inserts, func(a, b insert) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	from := 0
	for _, i := range inserts {
		out = append(append(out, text[from:i.at]...), i.text...)
		from = i.at
	}
	return append(out, text[from:]...)
}

// function is a function of a file.
type function struct {
	decl *ast.FuncDecl
	// text is its source, nameEnd where its name ends in it, and body where its first statement
	// may stand in the file.
	text          string
	nameEnd, body int
}

// functions are those of a file, by receiver and name.
func functions(name string, text []byte) (map[string]function, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	out := map[string]function{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		key := f.Name.Name
		if f.Recv != nil {
			t := f.Recv.List[0].Type
			key = string(text[offset(t.Pos()):offset(t.End())]) + "." + key
		}
		from := offset(f.Pos())
		out[key] = function{decl: f, text: string(text[from:offset(f.End())]), nameEnd: offset(f.Name.End()) - from, body: offset(f.Body.Lbrace) + 1}
	}
	return out, nil
}

// call is the statement that calls a twin with the same receiver and arguments.
func (f function) call(twin string) (string, error) {
	if recv := f.decl.Recv; recv != nil {
		if len(recv.List[0].Names) == 0 {
			return "", fmt.Errorf("the receiver of %s has no name", f.decl.Name.Name)
		}
		twin = recv.List[0].Names[0].Name + "." + twin
	}
	if f.decl.Type.TypeParams != nil {
		return "", fmt.Errorf("%s has type parameters", f.decl.Name.Name)
	}
	var args []string
	for _, p := range f.decl.Type.Params.List {
		for _, name := range p.Names {
			if name.Name == "_" {
				return "", fmt.Errorf("a parameter of %s has no name", f.decl.Name.Name)
			}
			arg := name.Name
			if _, many := p.Type.(*ast.Ellipsis); many {
				arg += "..."
			}
			args = append(args, arg)
		}
		if len(p.Names) == 0 {
			return "", fmt.Errorf("a parameter of %s has no name", f.decl.Name.Name)
		}
	}
	call := fmt.Sprintf("%s(%s)", twin, strings.Join(args, ", "))
	if f.decl.Type.Results == nil {
		return call + "\n\t\treturn", nil
	}
	return "return " + call, nil
}
