package settings

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// Context is a context of the configuration file, with its name.
type Context struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Connection
}

// Contexts lists the contexts of the configuration file by name.
func (s Flags) Contexts() ([]Context, error) {
	file, _, err := readConfig(s.Config)
	if err != nil {
		return nil, err
	}
	list := []Context{}
	for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
		list = append(list, Context{name, name == file.CurrentContext, file.Contexts[name]})
	}
	return list, nil
}

// UseContext makes a context the current one.
func (s Flags) UseContext(ctx context.Context, name string) error {
	return s.edit(ctx, func(file *configFile, _ string) error {
		if _, ok := file.Contexts[name]; !ok {
			known := slices.Sorted(maps.Keys(file.Contexts))
			return exit.Errorf(exit.NotFound, "there is no context %q%s; there: %s", name, suggest.Words(name, known), strings.Join(known, ", "))
		}
		file.CurrentContext = name
		return nil
	})
}

// Left is what a context that was changed has no longer.
type Left struct {
	// Endpoint is the one before, when its credentials are left out with it.
	Endpoint string
	// Login is the connection of a login that no context names any more; it has no login file when there is none.
	Login Connection
}

// SetContext changes a context by what was given, or makes it. The first one is the current one. Credentials go to the
// endpoint that they were given for only: with another one the context has none but those given now.
func (s Flags) SetContext(ctx context.Context, name string) (left Left, err error) {
	switch {
	case strings.TrimSpace(name) == "":
		return Left{}, exit.Usagef("CONTEXT is empty: give it a name")
	case s.TokenFile != "" && (s.User != "" || s.PasswordFile != ""):
		return Left{}, errTwoCredentials()
	}
	err = s.edit(ctx, func(file *configFile, dir string) error {
		if file.Contexts == nil {
			file.Contexts = map[string]Connection{}
		}
		before := file.Contexts[name]
		c := before
		if s.Endpoint != "" && s.Endpoint != c.Endpoint {
			if c.kinds() > 0 {
				left.Endpoint = c.Endpoint
			}
			c = c.withoutCredentials()
		}
		if s.TokenFile != "" {
			c.User, c.PasswordFile, c.LoginFile = "", "", ""
		}
		if s.User != "" || s.PasswordFile != "" {
			c.TokenFile, c.LoginFile = "", ""
		}
		for _, part := range []struct {
			to    *string
			given string
		}{{&c.Endpoint, s.Endpoint}, {&c.User, s.User}} {
			if part.given != "" {
				*part.to = part.given
			}
		}
		for _, part := range []struct {
			to    *string
			given string
		}{{&c.PasswordFile, s.PasswordFile}, {&c.TokenFile, s.TokenFile}, {&c.CAFile, s.CAFile}} {
			if part.given == "" {
				continue
			}
			path, err := filepath.Abs(part.given)
			if err != nil {
				return err
			}
			*part.to = path
		}
		if c.Endpoint == "" {
			return exit.Usagef("--endpoint is missing: where is the API of context %q?", name)
		}
		if _, err := client.New(client.Config{Endpoint: c.Endpoint}); err != nil { // a password in it would be kept, and listed
			return exit.Usagef("%w", err)
		}
		file.Contexts[name] = c
		if before.LoginFile != "" && !file.names(before.LoginFile) {
			left.Login = before.within(dir)
		}
		if file.CurrentContext == "" {
			file.CurrentContext = name
		}
		return nil
	})
	return left, err
}

// names says whether a context uses the login in a file.
func (f *configFile) names(login string) bool {
	for _, c := range f.Contexts {
		if c.LoginFile == login {
			return true
		}
	}
	return false
}

// edit changes the configuration file, which its owner alone can read, whole or not at all, while no other process does.
// change gets the folder that its relative paths begin at, too.
func (s Flags) edit(ctx context.Context, change func(file *configFile, dir string) error) (err error) {
	_, path, err := s.editable()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := atomicfile.Lock(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	file, _, err := s.editable()
	if err != nil {
		return err
	}
	if err := change(&file, dir); err != nil {
		return err
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	if kept, err := filepath.EvalSymlinks(path); err == nil {
		path = kept // it may be elsewhere, with a link in its place
	}
	return atomicfile.Write(path, data, 0o600)
}

// editable is the configuration file, which may not be there yet, and its path.
func (s Flags) editable() (configFile, string, error) {
	file, path, err := readConfig(s.Config)
	if s.Config != "" {
		path = s.Config
		if _, stat := os.Stat(path); errors.Is(stat, os.ErrNotExist) {
			err = nil // one that is named is made
		}
	}
	if err == nil && !filepath.IsAbs(path) && s.Config == "" {
		err = exit.Usagef("without HOME and XDG_CONFIG_HOME, name the file with --config")
	}
	return file, path, err
}
