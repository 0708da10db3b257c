package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

const (
	// maxSkew is how wrong a clock may be before it is mentioned.
	maxSkew = time.Minute
	// undoTime bounds how long it takes to take a login back.
	undoTime = 15 * time.Second
)

type loginCmd struct {
	issuerLogin

	Agent           string
	OscarCLI        bool
	OscarCLICluster string
	NoKeyring       bool
}

// Login is `oscarfed login`.
func Login(a *command.App) *cobra.Command {
	var c loginCmd
	cmd := &cobra.Command{
		Use:         "login",
		Annotations: map[string]string{command.OfConfiguration: "yes"},
		Short:       "Log in at the issuer of the API",
		Long: "Log in at the OpenID provider that the API names: with a browser on this machine, or with a code\n" +
			"that is typed on another one. The login is kept in a file that only you can read, beside the\n" +
			"configuration file, and its refresh token in the keyring of your session, where there is one. The\n" +
			"current context uses it, or one that is made for the API. Its tokens are renewed when they expire,\n" +
			"and go to that API alone.",
		Example: "  oscarfed login --endpoint https://federation.example.org\n" +
			"  oscarfed login --device\n" +
			"  oscarfed login --oidc-agent egi\n" +
			"  oscarfed login --oscar-cli --oscar-cli-cluster site",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a, cmd.Flags()) },
	}
	f := command.FlagsOf(cmd)
	c.issuerLogin.flags(f)
	f.Text(&c.Agent, "oidc-agent", "", "", "ACCOUNT", "Have an account of oidc-agent give the tokens.")
	f.BoolVar(&c.OscarCLI, "oscar-cli", false, "Take the login of a cluster in ~/.oscar-cli/config.yaml.")
	f.Text(&c.OscarCLICluster, "oscar-cli-cluster", "", "", "ID", "Which cluster of oscar-cli (its default one).")
	f.BoolVar(&c.NoKeyring, "no-keyring", false, "Keep the refresh token in the file also where there is a keyring.")
	cmd.MarkFlagsMutuallyExclusive("browser", "device", "oidc-agent", "oscar-cli")
	return cmd
}

func (c *loginCmd) Run(ctx context.Context, a *command.App, flags *pflag.FlagSet) error {
	if err := command.TakeEnvironment(flags, os.Getenv); err != nil {
		return err
	}
	target, err := a.Flags.LoginTarget()
	if err != nil {
		return err
	}
	a.Connection = target.Connection
	record, err := c.record(ctx, a)
	if err != nil {
		return err
	}
	record.ID, record.API = rand.Text(), target.Connection.Endpoint
	if !c.NoKeyring {
		record = record.Hidden(ctx)
	}
	before, err := replace(ctx, target.File, record)
	if err != nil {
		return err
	}
	// Only now: a refresh token that oscar-cli had is renewed into the file.
	who, err := whoIs(ctx, target)
	if err == nil {
		err = a.Flags.SetLogin(ctx, target)
	}
	if err != nil {
		return errors.Join(err, undo(ctx, target.File, record, before))
	}
	end(ctx, before, record)
	a.Sayf("logged in to %s; context %s uses this login", target.Connection.Endpoint, target.Context)
	return printWho(a, who)
}

// replace puts a new login into its file, and gives the one before. Until then nobody else knows it: one that cannot be
// kept is ended.
func replace(ctx context.Context, file login.File, record login.Record) (before login.Record, err error) {
	err = file.Update(ctx, func(was login.Record, err error) (*login.Record, error) {
		if err == nil {
			before = was
		}
		return &record, nil
	})
	if err != nil {
		if before.API == "" { // it was not read
			if was, err := file.Load(); err == nil {
				before = was
			}
		}
		ctx, stop := uninterrupted(ctx)
		defer stop()
		end(ctx, record, before)
	}
	return before, err
}

// undo puts the file back as it was before a login that the API refuses, or that was interrupted. The login may be renewed
// by then, or another one, or a logout, may have replaced it: then the file stays.
func undo(ctx context.Context, file login.File, refused, before login.Record) error {
	ctx, stop := uninterrupted(ctx)
	defer stop()
	return file.Update(ctx, func(now login.Record, err error) (*login.Record, error) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			end(ctx, before, login.Record{})
			return nil, nil
		case err == nil && now.ID != refused.ID:
			end(ctx, before, now)
			return &now, nil
		case err == nil:
			refused = now
		}
		end(ctx, refused, before)
		if before.API == "" {
			return nil, nil
		}
		return &before, nil
	})
}

// uninterrupted takes something back although the person interrupts it: else no context would name the new login, and the
// former one would be lost.
func uninterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTime)
}

// end ends a login that no file has any more, unless it is the one that stays, or none.
func end(ctx context.Context, over, stays login.Record) {
	revokeBeside(ctx, over, stays)
	over.Forget(ctx)
}

// revokeBeside ends a login at its issuer, unless another one, which stays, is of the same client
// there. An issuer may have one session for all that a client has of a user, as Keycloak has: to end
// one login would end the other, too. That a login lives on until it expires is no failure.
func revokeBeside(ctx context.Context, over, stays login.Record) {
	if over.Issuer != stays.Issuer || over.ClientID != stays.ClientID {
		_, _ = revoke(ctx, over)
	}
}

// whoIs asks the API who a login is taken for.
func whoIs(ctx context.Context, target settings.LoginTarget) (*v1.WhoAmI, error) {
	connection := target.Connection
	connection.LoginFile = string(target.File)
	api, err := connection.Dial()
	if err != nil {
		return nil, err
	}
	who, err := api.WhoAmI(ctx)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code() == v1.CodeUnauthenticated {
		return nil, exit.Errorf(exit.NotAuthorised, "the issuer has logged you in, and %s does not let you in: "+
			"are you in one of its groups, and does it trust this issuer?", target.Connection.Endpoint)
	}
	return who, err
}

// fromOscarCLI says that a login of oscar-cli is taken: to name its cluster is to ask for it.
func (c *loginCmd) fromOscarCLI() bool { return c.OscarCLI || c.OscarCLICluster != "" }

// record logs in, by the way that was asked for.
func (c *loginCmd) record(ctx context.Context, a *command.App) (login.Record, error) {
	switch {
	case c.Agent != "":
		return login.FromAgent(ctx, c.Agent)
	case c.fromOscarCLI():
		home, err := os.UserHomeDir()
		if err != nil {
			return login.Record{}, exit.Usagef("oscar-cli: %w", err)
		}
		record, err := login.FromOscarCLI(filepath.Join(home, ".oscar-cli", "config.yaml"), c.OscarCLICluster, c.Issuer, c.ClientID)
		if err == nil && record.RefreshToken != "" {
			a.Sayf("note: where the issuer replaces refresh tokens, the one in oscar-cli's file is used up by this login")
		}
		return record, err
	}
	return c.atIssuer(ctx, a)
}

// issuerLogin has a person log in at an issuer.
type issuerLogin struct {
	Issuer, ClientID string
	Scopes           []string
	Browser, Device  bool
}

func (c *issuerLogin) flags(f command.Flags) {
	f.BoolVar(&c.Browser, "browser", false, "Log in with a browser on this machine: the default where one can be opened.")
	f.BoolVar(&c.Device, "device", false, "Log in with a code that is typed on any machine.")
	f.Text(&c.Issuer, "issuer", "", "", "URL", "The issuer, when the API names several or none.")
	f.Text(&c.ClientID, "client-id", "", "", "ID", "The public client to log in with, when the API names none.")
	f.List(&c.Scopes, "scope", "SCOPE", "Scopes to ask for, in place of those that the API names.")
}

func (c *issuerLogin) atIssuer(ctx context.Context, a *command.App) (login.Record, error) {
	from, err := c.issuer(ctx, a)
	if err != nil {
		return login.Record{}, err
	}
	provider, err := login.Discover(ctx, from.Issuer, from.ClientID)
	if err != nil {
		return login.Record{}, err
	}
	defer provider.Close()
	if len(from.Scopes) > 0 {
		provider.Scope(from.Scopes)
	}
	if skew := provider.Ahead().Round(time.Second); skew.Abs() > maxSkew {
		a.Sayf("warning: the clock of this machine and that of %s differ by %s: set the clock", from.Issuer, skew.Abs())
	}
	open := opener(os.Getenv, exec.LookPath)
	if c.Device || !c.Browser && provider.HasDevice() && (open == "" || !command.IsTerminalInput(a.Stdin)) {
		return provider.Device(ctx, func(p login.Prompt) { showDevice(a, p) })
	}
	return provider.Browser(ctx, func(page string) { showPage(ctx, a, open, page) })
}

// issuer is where to log in: what the API names, and what was given in place of it.
func (c *issuerLogin) issuer(ctx context.Context, a *command.App) (v1.LoginIssuer, error) {
	given := v1.LoginIssuer{Issuer: c.Issuer, ClientID: c.ClientID, Scopes: c.Scopes}
	if c.Issuer != "" && c.ClientID != "" {
		return given, nil
	}
	api, err := a.Dial()
	if err != nil {
		return given, err
	}
	named, err := api.Login(ctx)
	if err != nil {
		if e, ok := errors.AsType[*client.Error](err); ok && e.Problem.Status == http.StatusNotFound {
			return given, exit.Errorf(exit.NotReachable, "%s does not name its issuers: it is no control plane, or one that is too old; with --issuer and --client-id it need not", a.Connection.Endpoint)
		}
		return given, err
	}
	return choose(given, named.Issuers)
}

// choose picks one of the issuers that the API names.
func choose(given v1.LoginIssuer, named []v1.LoginIssuer) (v1.LoginIssuer, error) {
	var urls []string
	for _, i := range named {
		urls = append(urls, i.Issuer)
	}
	at := slices.Index(urls, given.Issuer)
	switch {
	case len(named) == 0:
		return given, exit.Errorf(exit.NotFound, "this control plane has no issuer: only the administrator is let in, with --user and --password-file")
	case given.Issuer == "" && len(named) > 1:
		return given, exit.Usagef("the control plane names several issuers: give one as --issuer: %s", strings.Join(urls, ", "))
	case given.Issuer == "":
		at = 0
	case at < 0:
		return given, exit.Usagef("the control plane does not trust %q; it names %s", given.Issuer, strings.Join(urls, ", "))
	}
	one := named[at]
	one.ClientID = cmp.Or(given.ClientID, one.ClientID)
	if one.ClientID == "" {
		return given, exit.Usagef("the control plane names no client for %s: give --client-id, or have its operator set --oidc-client-id", one.Issuer)
	}
	if len(given.Scopes) > 0 {
		one.Scopes = given.Scopes
	}
	return one, nil
}

// showDevice says what to do to log in.
func showDevice(a *command.App, p login.Prompt) {
	a.Sayf("Open %s on any machine and type the code  %s", p.URL, p.Code)
	if p.Complete != "" {
		a.Sayf("or open %s", p.Complete)
	}
	a.Sayf("The code expires at %s. Waiting ...", p.Until.Local().Format(time.TimeOnly))
}

// showPage opens a page, and says which in case no browser comes up.
func showPage(ctx context.Context, a *command.App, open, page string) {
	if open == "" {
		a.Sayf("Open this page in a browser on this machine:\n  %s", page)
		return
	}
	a.Sayf("Your browser opens. If it does not, open this page on this machine:\n  %s", page)
	cmd := exec.CommandContext(ctx, open, page) //nolint:gosec // an http or https URL as one argument
	if err := cmd.Start(); err != nil {
		a.Sayf("the browser cannot be opened: %v", err)
		return
	}
	go func() { _ = cmd.Wait() }() // how it ends says nothing of the login
}

// opener is the program that opens a page in a browser on this machine; empty when there is none, as
// over SSH.
func opener(getenv func(string) string, find func(string) (string, error)) string {
	if getenv("SSH_CONNECTION") != "" {
		return ""
	}
	names := []string{"xdg-open", "wslview"}
	if runtime.GOOS == "darwin" {
		names = []string{"open"}
	} else if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" && getenv("WSL_DISTRO_NAME") == "" {
		names = nil
	}
	if own := getenv("BROWSER"); own != "" {
		names = append([]string{own}, names...)
	}
	for _, name := range names {
		if path, err := find(name); err == nil {
			return path
		}
	}
	return ""
}

type logoutCmd struct{}

// Logout is `oscarfed logout`.
func Logout(a *command.App) *cobra.Command {
	var c logoutCmd
	return &cobra.Command{
		Use:     "logout",
		Short:   "End the login of a context",
		Long:    "End the login of a context: at the issuer, where that can be, and here.",
		Example: "  oscarfed logout\n  oscarfed logout --context site",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (logoutCmd) Run(ctx context.Context, a *command.App) error {
	if a.Connection.LoginFile == "" {
		return exit.Errorf(exit.NotFound, "this context has no login; oscarfed context list shows where there is one")
	}
	if err := endLogin(ctx, a, a.Connection, a.Flags.ForgetLogin); err != nil {
		return err
	}
	a.Sayf("logged out of %s", a.Connection.Endpoint)
	return nil
}

// endLogin ends the login of a connection: at its issuer, by forget, and here. Nothing renews it meanwhile: its successor
// would live on unnamed.
func endLogin(ctx context.Context, a *command.App, of settings.Connection, forget func(context.Context) error) error {
	var forgotten error
	err := login.File(of.LoginFile).Update(ctx, func(record login.Record, err error) (*login.Record, error) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			a.Sayf("warning: %v", err)
		case record.API != of.Endpoint:
			a.Sayf("warning: the login was one for %q: it is not ended at its issuer", record.API)
		default:
			sayRevoked(ctx, a, record)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // it may not be ended at its issuer: it can be logged out of again
		}
		record.Forget(ctx)
		forgotten = forget(ctx)
		return nil, nil
	})
	return errors.Join(err, forgotten)
}

// sayRevoked ends a login at its issuer, and says where that is not done.
func sayRevoked(ctx context.Context, a *command.App, record login.Record) {
	ended, err := revoke(ctx, record)
	switch {
	case record.Agent != "":
	case record.Borrowed:
		a.Sayf("note: the login was taken from another program, and is not ended at its issuer")
	case err != nil:
		a.Sayf("warning: the login is not ended at its issuer: %v", err)
	case !ended:
		a.Sayf("warning: the issuer cannot end a login: its tokens live until they expire (%s)", record.Expires.UTC().Format(time.RFC3339))
	}
}

// revoke ends a login at its issuer. One of another program is that program's to end.
func revoke(ctx context.Context, record login.Record) (bool, error) {
	if record.Issuer == "" || record.Borrowed {
		return false, nil
	}
	record, err := record.Whole(ctx)
	if err != nil {
		return false, err
	}
	provider, err := login.Discover(ctx, record.Issuer, record.ClientID)
	if err != nil {
		return false, fmt.Errorf("logout: %w", err)
	}
	defer provider.Close()
	return provider.Revoke(ctx, record)
}
