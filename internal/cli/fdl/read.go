package fdl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

// Stdin is the file name that means standard input.
const Stdin = "-"

// Read reads the definitions of a file, with their scripts in them. The path of
// a script is relative to the FDL; from standard input only an absolute one has a
// meaning.
func Read(path string, stdin io.Reader) ([]Service, error) {
	var (
		data []byte
		err  error
	)
	if path == Stdin {
		data, err = settings.ReadAll(stdin, "the FDL", oscar.MaxServiceBytes)
	} else {
		data, err = readFile(path)
	}
	if err != nil {
		return nil, AsInput(err)
	}
	parsed, violations := oscar.ParseFDL(data)
	if len(violations) > 0 {
		return nil, Invalid(violations)
	}
	services := make([]Service, 0, len(parsed.Functions))
	for _, f := range parsed.Functions {
		if f.ScriptFile != "" {
			if f.Service.Script, err = readScript(f.ScriptFile, path); err != nil {
				return nil, AsInput(fmt.Errorf("%s.script: %w", f.Path, err))
			}
		}
		services = append(services, Service{f.Service, f.Line})
	}
	return services, nil
}

// readFile reads a file, or a pipe such as that of <(command) in a shell.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder: apply takes one, also with --dry-run", path)
	case info.Mode()&os.ModeNamedPipe == 0:
		return settings.ReadLimited(path, oscar.MaxServiceBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return settings.ReadAll(f, path, oscar.MaxServiceBytes)
}

// Service is a service of an FDL, and the line at which it stands there.
type Service struct {
	*oscar.Service

	Line int
}

// At names the service and its line, for messages.
func (s Service) At() string { return fmt.Sprintf("%s (line %d)", s.Name, s.Line) }

func readScript(script, fdl string) (string, error) {
	switch {
	case filepath.IsAbs(script):
	case fdl == Stdin:
		return "", fmt.Errorf("%q is relative to an FDL that has no place, it comes from standard input; give an absolute path, or the FDL by its name", script)
	default:
		script = filepath.Join(filepath.Dir(fdl), script)
	}
	data, err := settings.ReadLimited(script, oscar.MaxScriptBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file %q: a single line is the path of a file, from where the FDL is; write a script of one line as a block (script: |)", script)
	}
	return string(data), err
}

// Files are the FDLs that a path names: itself or, of a folder, those in it and, when recursive,
// below it, in the order of their paths. What begins with a dot is left out.
func Files(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if path == Stdin || err != nil || !info.IsDir() {
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
		return nil, AsInput(err)
	}
	if len(files) == 0 {
		return nil, exit.Errorf(exit.Invalid, "%s has no .yaml or .yml file", path)
	}
	return files, nil
}

// AsInput gives an error without a status of its own that of invalid input.
func AsInput(err error) error {
	if exit.StatusOf(err) != exit.Failed {
		return err
	}
	return exit.Errorf(exit.Invalid, "%w", err)
}

// Invalid is the answer that the API would give, found before asking it.
func Invalid(violations []oscar.Violation) error {
	p := v1.Problem{Code: v1.CodeInvalid, Title: "The FDL is not valid", Detail: output.Count(len(violations), "violation")}
	for _, v := range violations {
		p.Violations = append(p.Violations, v1.Violation{Path: v.Path, Rule: v.Rule, Value: v.Value, Message: v.Message})
	}
	return &client.Error{Problem: p}
}
