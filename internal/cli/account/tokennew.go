package account

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
)

type tokenNewCmd struct {
	issuerLogin

	File string
}

// TokenNew is `oscarfed token new`.
func TokenNew(a *command.App) *cobra.Command {
	var c tokenNewCmd
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Log in for a refresh token that a service is given",
		Long: "Log in at the issuer once more, for a refresh token that nothing but a service uses, and write it\n" +
			"to a file that only you can read. Your own login stays as it is. At an issuer that has one session\n" +
			"for all that a client has of you, as Keycloak has, the end of the one is that of the other: there\n" +
			"--client-id names another client, which token set is told, too.",
		Example: "  oscarfed token new --file refresh.token\n" +
			"  oscarfed apply -f service.yaml --refresh-token-file refresh.token\n" +
			"  oscarfed token new --file - | oscarfed token set grayify --file -",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.File, "file", "", "", "FILE", "The file to make; - for standard output, into another program.")
	c.issuerLogin.flags(f)
	f.Required("file")
	cmd.MarkFlagsMutuallyExclusive("browser", "device")
	return cmd
}

func (c *tokenNewCmd) Run(ctx context.Context, a *command.App) error {
	if c.File == "-" {
		if command.IsTerminalOutput(a.Stdout) {
			return exit.Usagef("--file - is for another program: a refresh token is not shown on a terminal")
		}
		return c.hand(ctx, a, c.print)
	}
	// What is wrong with the file is said before anybody logs in.
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return exit.Usagef("%s is there already: name another file", c.File)
	case err != nil:
		return exit.Usagef("%w", err)
	}
	err = c.hand(ctx, a, func(_ *command.App, token string) error {
		_, err := fmt.Fprintln(file, token)
		return errors.Join(err, file.Close())
	})
	if err != nil {
		_ = file.Close() // unless it is closed
		return errors.Join(err, os.Remove(c.File))
	}
	a.Sayf("the refresh token is in %s: for oscarfed apply --refresh-token-file, or oscarfed token set", c.File)
	return nil
}

// print writes a token to standard output. A program there that has ended is an error, and does not end this one.
func (c *tokenNewCmd) print(a *command.App, token string) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGPIPE)
	defer signal.Stop(ended)
	_, err := fmt.Fprintln(a.Stdout, token)
	return err
}

// hand has the person log in, and hands the refresh token over. One that nobody has got is ended.
func (c *tokenNewCmd) hand(ctx context.Context, a *command.App, over func(*command.App, string) error) error {
	record, err := c.atIssuer(ctx, a)
	if err != nil {
		return err
	}
	if record.RefreshToken == "" {
		return exit.Errorf(exit.Failed, "issuer %s: gave no refresh token to the client %s: --scope or --client-id may help", record.Issuer, record.ClientID)
	}
	if err := over(a, record.RefreshToken); err != nil {
		ctx, stop := uninterrupted(ctx)
		defer stop()
		endUnheld(ctx, a, record)
		return fmt.Errorf("the refresh token could not be written: %w", err)
	}
	return nil
}

// endUnheld ends at its issuer what nobody has. The login of the context stays: see revokeBeside.
func endUnheld(ctx context.Context, a *command.App, record login.Record) {
	own, err := login.File(a.Connection.LoginFile).Load()
	if err == nil && own.Issuer == record.Issuer && own.ClientID == record.ClientID {
		a.Sayf("warning: the refresh token is not ended at its issuer, since that could end your own login: it lives until it expires")
		return
	}
	sayRevoked(ctx, a, record)
}
