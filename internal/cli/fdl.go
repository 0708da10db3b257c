package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// stdinName is the file name that means standard input.
const stdinName = "-"

// readFDL reads the definitions of a file, with their scripts in them. A script
// is a path relative to the FDL; from standard input only an absolute one has a
// meaning. A script of several lines is the script itself.
func readFDL(path string, stdin io.Reader) ([]defined, error) {
	var (
		data []byte
		err  error
	)
	if path == stdinName {
		data, err = settings.ReadAll(stdin, "the FDL", oscar.MaxServiceBytes)
	} else {
		data, err = settings.ReadLimited(path, oscar.MaxServiceBytes)
	}
	if err != nil {
		return nil, asInput(err)
	}
	fdl, violations := oscar.ParseFDL(data)
	if len(violations) > 0 {
		return nil, invalidFDL(violations)
	}
	services := make([]defined, 0, len(fdl.Functions))
	for _, f := range fdl.Functions {
		if f.Service.Script, err = inlineScript(f.Service.Script, path); err != nil {
			return nil, asInput(fmt.Errorf("%s.script: %w", f.Path, err))
		}
		services = append(services, defined{f.Service, f.Line})
	}
	return services, nil
}

// warnOfUnknown names the keys that have no effect, since nothing knows them: an error when strict.
func (a *app) warnOfUnknown(services []defined, strict bool) error {
	var violations []oscar.Violation
	for _, s := range services {
		for _, u := range oscar.UnknownKeys(s.Service) {
			text := "nothing knows this key, and it has no effect" + suggest.Words(u.Key, u.Known)
			violations = append(violations, oscar.Violation{Path: s.at() + ": " + u.Path, Message: text})
			if !strict {
				a.sayf("warning: %s: %s: %s", s.at(), u.Path, text)
			}
		}
	}
	if strict && len(violations) > 0 {
		return invalidFDL(violations)
	}
	return nil
}

// defined is a service of an FDL, and the line at which it stands there.
type defined struct {
	*oscar.Service
	line int
}

// at names the service and its line, for messages.
func (d defined) at() string { return fmt.Sprintf("%s (line %d)", d.Name, d.line) }

func inlineScript(script, fdl string) (string, error) {
	switch {
	case script == "" || strings.Contains(script, "\n"):
		return script, nil
	case filepath.IsAbs(script):
	case fdl == stdinName:
		return "", fmt.Errorf("%q is relative to an FDL that has no place, it comes from standard input; give an absolute path, or the FDL by its name", script)
	default:
		script = filepath.Join(filepath.Dir(fdl), script)
	}
	data, err := settings.ReadLimited(script, oscar.MaxScriptBytes)
	return string(data), err
}

// fdlsIn are the FDLs that a path names: itself or, of a folder, those in it and, when recursive,
// below it, in the order of their paths. What begins with a dot is left out.
func fdlsIn(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if path == stdinName || err != nil || !info.IsDir() {
		if recursive {
			return nil, exit.Usagef("--recursive is for a folder")
		}
		return []string{path}, nil // reading it says what is wrong
	}
	var files []string
	err = filepath.WalkDir(path, func(at string, entry os.DirEntry, err error) error {
		hidden := at != path && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if hidden || at != path && !recursive {
				return filepath.SkipDir
			}
		case !hidden && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(at)):
			files = append(files, at)
		}
		return nil
	})
	if err != nil {
		return nil, asInput(err)
	}
	if len(files) == 0 {
		return nil, exit.Errorf(exit.Invalid, "%s has no .yaml or .yml file", path)
	}
	return files, nil
}

// asInput gives an error without a status of its own that of invalid input.
func asInput(err error) error {
	if exit.StatusOf(err) != exit.Failed {
		return err
	}
	return exit.Errorf(exit.Invalid, "%w", err)
}

// invalidFDL is the answer that the API would give, found before asking it.
func invalidFDL(violations []oscar.Violation) error {
	p := v1.Problem{Code: v1.CodeInvalid, Title: "The FDL is not valid", Detail: count(len(violations), "violation")}
	for _, v := range violations {
		p.Violations = append(p.Violations, v1.Violation{Path: v.Path, Rule: v.Rule, Value: v.Value, Message: v.Message})
	}
	return &client.Error{Problem: p}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
