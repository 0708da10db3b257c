package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
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
		return c.write(ctx, a, a.Stdout)
	}
	// What is wrong with the file is said before anybody logs in.
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return exit.Usagef("%s is there already: name another file", c.File)
	case err != nil:
		return exit.Usagef("%w", err)
	}
	err = errors.Join(c.write(ctx, a, file), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(c.File))
	}
	a.Sayf("the refresh token is in %s: for oscarfed apply --refresh-token-file, or oscarfed token set", c.File)
	return nil
}

// write has the person log in, and writes the refresh token.
func (c *tokenNewCmd) write(ctx context.Context, a *command.App, to io.Writer) error {
	record, err := c.atIssuer(ctx, a)
	if err != nil {
		return err
	}
	if record.RefreshToken == "" {
		return exit.Errorf(exit.Failed, "issuer %s: gave no refresh token to the client %s: --scope or --client-id may help", record.Issuer, record.ClientID)
	}
	_, err = fmt.Fprintln(to, record.RefreshToken)
	return err
}
