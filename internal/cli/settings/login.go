package settings

import (
	"cmp"
	"context"
	"net/url"
	"path/filepath"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
)

// loginsDir is the folder of the logins, beside the configuration file.
const loginsDir = "logins"

// LoginTarget is what a login is for, and where it is kept.
type LoginTarget struct {
	// Context is the name of the context that gets the login.
	Context string
	// Connection has the address of the API and the certificates to trust, and no credentials.
	Connection Connection
	File       login.File
}

// LoginTarget finds the context of a login: the one that is named, else the current one when it is of
// the same API, else one with the name of the API's host.
func (s Flags) LoginTarget() (LoginTarget, error) {
	file, path, err := s.editable()
	if err != nil {
		return LoginTarget{}, err
	}
	name := s.Context
	if current := file.Contexts[file.CurrentContext]; name == "" && (s.Endpoint == "" || s.Endpoint == current.Endpoint) {
		name = file.CurrentContext
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return LoginTarget{}, err
	}
	given := Connection{Endpoint: s.Endpoint, CAFile: s.CAFile}
	c, err := merge(given, file.Contexts[name].within(dir).withoutCredentials())
	if err != nil {
		return LoginTarget{}, err
	}
	if c.CAFile != "" {
		if c.CAFile, err = filepath.Abs(c.CAFile); err != nil {
			return LoginTarget{}, err
		}
	}
	if name == "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Host == "" {
			return LoginTarget{}, exit.Usagef("the endpoint is no URL; use for example %s", DefaultEndpoint)
		}
		name = u.Host
	}
	return LoginTarget{Context: name, Connection: c, File: login.File(filepath.Join(dir, relativeLogin(name)))}, nil
}

// relativeLogin is the file of a context's login, relative to the configuration file.
func relativeLogin(context string) string {
	return filepath.Join(loginsDir, url.PathEscape(context)+".json")
}

// SetLogin has a context use the login in its file, in place of other credentials. The context is
// made when it is not there, and becomes the current one when there is none.
func (s Flags) SetLogin(ctx context.Context, t LoginTarget) error {
	return s.edit(ctx, func(file *configFile, _ string) error {
		if file.Contexts == nil {
			file.Contexts = map[string]Connection{}
		}
		file.Contexts[t.Context] = Connection{Endpoint: t.Connection.Endpoint, CAFile: t.Connection.CAFile, LoginFile: relativeLogin(t.Context)}
		file.CurrentContext = cmp.Or(file.CurrentContext, t.Context)
		return nil
	})
}

// ForgetLogin has a context use no login any more; the current one when none is named.
func (s Flags) ForgetLogin(ctx context.Context) error {
	return s.edit(ctx, func(file *configFile, _ string) error {
		name := cmp.Or(s.Context, file.CurrentContext)
		if c, ok := file.Contexts[name]; ok {
			c.LoginFile = ""
			file.Contexts[name] = c
		}
		return nil
	})
}
