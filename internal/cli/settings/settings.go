package settings

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/version"
)

// What is used when nothing else is given.
const (
	DefaultEndpoint = "http://127.0.0.1:8080"
	DefaultUser     = "oscar"
)

// Sizes in bytes of the files that are read.
const (
	MaxConfig     = 1 << 20
	maxCredential = 64 << 10
)

// Flags are the flags that every command has. An empty one was not given.
type Flags struct {
	Endpoint     string
	User         string
	PasswordFile string
	TokenFile    string
	CAFile       string
	// Context of the configuration file to use instead of its current one.
	Context string
	Config  string
	Output  string
}

// configFile is the configuration file. Keys that it does not have are refused.
type configFile struct {
	CurrentContext string                `json:"current_context,omitempty"`
	Contexts       map[string]Connection `json:"contexts,omitempty"`
	Output         string                `json:"output,omitempty"`
}

// Connection is one context: where an API is, and the credentials for it. Paths are relative to
// the configuration file.
type Connection struct {
	Endpoint     string `json:"endpoint"`
	User         string `json:"user,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`
	TokenFile    string `json:"token_file,omitempty"`
	// LoginFile is what oscarfed login has written.
	LoginFile string `json:"login_file,omitempty"`
	CAFile    string `json:"ca_file,omitempty"`
	// NotTold says that the endpoint is the default one, since nothing names one.
	NotTold bool `json:"-"`
}

// Resolve merges what was given (flags over environment, which the parser has
// done) with the configuration file and the defaults, and checks all of it.
func (s Flags) Resolve() (Connection, output.Form, error) {
	file, path, err := readConfig(s.Config)
	if err != nil {
		return Connection{}, "", err
	}
	name := s.Context
	if name == "" {
		name = file.CurrentContext
	}
	stored, ok := file.Contexts[name]
	if name != "" && !ok {
		known := strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", ")
		if known == "" {
			known = "none"
		}
		return Connection{}, "", exit.Usagef("context %q is not in %s; there: %s", name, path, known)
	}
	given := Connection{Endpoint: s.Endpoint, User: s.User, PasswordFile: s.PasswordFile, TokenFile: s.TokenFile, CAFile: s.CAFile}
	c, err := merge(given, stored.within(filepath.Dir(path)))
	if err != nil {
		return Connection{}, "", err
	}
	out, err := output.FormOf(s.Output, file.Output)
	return c, out, err
}

// within is a stored context whose relative paths begin at dir.
func (c Connection) within(dir string) Connection {
	for _, p := range []*string{&c.PasswordFile, &c.TokenFile, &c.LoginFile, &c.CAFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	return c
}

func errTwoCredentials() error {
	return exit.Usagef("give --token-file, or --user and --password-file, not both")
}

// merge puts what was given over a stored context. Credentials of the context
// go to the context's own endpoint only, and a token given replaces a stored
// password as a whole, and the other way round.
func merge(given, stored Connection) (Connection, error) {
	c := given
	if given.Endpoint != "" && given.Endpoint != stored.Endpoint {
		stored = Connection{}
	}
	if given.TokenFile != "" && (given.User != "" || given.PasswordFile != "") {
		return c, errTwoCredentials()
	}
	if stored.kinds() > 1 {
		return c, exit.Usagef("the context has several of token_file, login_file, and user with password_file; keep one of them")
	}
	c.Endpoint = cmp.Or(given.Endpoint, stored.Endpoint, DefaultEndpoint)
	c.NotTold = given.Endpoint == "" && stored.Endpoint == ""
	c.CAFile = cmp.Or(given.CAFile, stored.CAFile)
	switch {
	case given.TokenFile != "":
	case given.User == "" && given.PasswordFile == "" && stored.TokenFile != "":
		c.TokenFile = stored.TokenFile
	case given.User == "" && given.PasswordFile == "" && stored.LoginFile != "":
		c.LoginFile = stored.LoginFile
	default:
		c.User = cmp.Or(given.User, stored.User)
		c.PasswordFile = cmp.Or(given.PasswordFile, stored.PasswordFile)
		if c.User != "" && c.PasswordFile == "" {
			return c, exit.Usagef("user %q needs --password-file", c.User)
		}
		if c.PasswordFile != "" {
			c.User = cmp.Or(c.User, DefaultUser)
		}
	}
	return c, nil
}

// kinds counts the kinds of credentials that a context has.
func (c Connection) kinds() (n int) {
	for _, has := range []bool{c.TokenFile != "", c.LoginFile != "", c.User != "" || c.PasswordFile != ""} {
		if has {
			n++
		}
	}
	return n
}

// withoutCredentials is the connection of a caller who is not logged in yet.
func (c Connection) withoutCredentials() Connection {
	return Connection{Endpoint: c.Endpoint, CAFile: c.CAFile}
}

// Login is the file of the connection's login, and the source of its tokens; nil when it has none.
func (c Connection) Login() (login.File, *login.Source) {
	if c.LoginFile == "" {
		return "", nil
	}
	file := login.File(c.LoginFile)
	return file, login.NewSource(file, c.Endpoint)
}

// Exposes says that credentials can be read on their way to the endpoint.
func (c Connection) Exposes() bool {
	u, err := url.Parse(c.Endpoint)
	return err == nil && c.kinds() > 0 && !outbound.Private(u)
}

// Dial makes the client of a connection. It sends nothing yet.
func (c Connection) Dial() (*client.Client, error) {
	cfg := client.Config{Endpoint: c.Endpoint, User: c.User, UserAgent: version.UserAgent("oscarfed")}
	var err error
	if c.PasswordFile != "" {
		if cfg.Password, err = readSecret("password", c.PasswordFile); err != nil {
			return nil, err
		}
	}
	if c.TokenFile != "" {
		if cfg.Token, err = readSecret("token", c.TokenFile); err != nil {
			return nil, err
		}
	}
	if _, source := c.Login(); source != nil {
		cfg.TokenOf = source.Token
	}
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	if roots != nil {
		cfg.Transport = transportTrusting(roots)
	}
	api, err := client.New(cfg)
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	return api, nil
}

// Roots are the certificates to trust; nil for those of the system.
func (c Connection) Roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	pem, err := ReadLimited(c.CAFile, MaxConfig)
	if err != nil {
		return nil, exit.Usagef("certificates: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, exit.Usagef("%s has no certificate in PEM form", c.CAFile)
	}
	return roots, nil
}

func transportTrusting(roots *x509.CertPool) http.RoundTripper {
	return outbound.Transport(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
}

// readConfig reads the configuration file. Only one that was asked for by name
// must exist.
func readConfig(path string) (configFile, string, error) {
	asked := path != ""
	if !asked {
		dir := os.Getenv("XDG_CONFIG_HOME")
		if dir == "" {
			home := os.Getenv("HOME")
			if home == "" { // a process without a home has no configuration file
				return configFile{}, "the configuration file", nil
			}
			dir = filepath.Join(home, ".config")
		}
		path = filepath.Join(dir, "oscarfed", "config.yaml")
	}
	var file configFile
	data, err := ReadLimited(path, MaxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !asked:
		return file, path, nil
	case err != nil:
		return file, path, exit.Usagef("configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return file, path, exit.Usagef("configuration %s: %s", path, plainly(err))
	}
	return file, path, nil
}

// plainly says what is wrong with a file in YAML; what reads it speaks of JSON and of types in Go.
func plainly(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := "text"
		if k := wrong.Type.Kind(); k == reflect.Struct || k == reflect.Map {
			want = "a mapping"
		}
		return fmt.Sprintf("%s must be %s, not %s", cmp.Or(wrong.Field, "the file"), want, wrong.Value)
	}
	text := err.Error()
	for _, prefix := range []string{"error unmarshaling JSON: ", "error converting YAML to JSON: ", "while decoding JSON: ", "json: ", "yaml: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if key, ok := strings.CutPrefix(text, "unknown field "); ok {
		return "it has no key " + key
	}
	return text
}

// readSecret reads a password or token: the file's text without white space
// around it.
func readSecret(what, path string) (string, error) {
	data, err := ReadLimited(path, maxCredential)
	if err != nil {
		return "", exit.Usagef("%s: %w", what, err)
	}
	secret := string(bytes.TrimSpace(data))
	if secret == "" {
		return "", exit.Usagef("%s: %s is empty", what, path)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }) {
		return "", exit.Usagef("%s: %s holds bytes that are no text: it is no file with a %s", what, path, what)
	}
	return secret, nil
}

// ReadLimited reads a regular file of at most limit bytes. It does not wait for
// a pipe or a device.
func ReadLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return ReadAll(f, path, limit)
}

// ReadAll reads r, which is called name, up to limit bytes.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, exit.Errorf(exit.Invalid, "%s is larger than %d bytes", name, limit)
	}
	return data, nil
}
