package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type tokenRotateCmd struct {
	Service string
	Cluster string
}

// TokenRotate is `oscarfed token rotate`.
func TokenRotate(a *command.App) *cobra.Command {
	var c tokenRotateCmd
	cmd := &cobra.Command{
		Use:   "rotate SERVICE",
		Short: "Replace the tokens of a federation",
		Long: "Give the services of a federation other tokens for /job, /run and their replicas at the control\n" +
			"plane. Webhooks need the new one.",
		Example: "  oscarfed token rotate grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *tokenRotateCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	view, err := api.RotateToken(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	a.Sayf("the services of %s have other tokens for the control plane; oscarfed get services %s -o json shows the new one", c.Service, c.Service)
	if a.Form == output.FormTable {
		return nil
	}
	return a.Print(view, func() *output.Table { return viewTable(view) })
}

type tokenShowCmd struct {
	Service string
	Cluster string
}

// TokenShow is `oscarfed token show`.
func TokenShow(a *command.App) *cobra.Command {
	var c tokenShowCmd
	cmd := &cobra.Command{
		Use:     "show SERVICE",
		Short:   "Show how the refresh token stands",
		Long:    "Show how the refresh token of a service's owner stands, and what each member has of it.",
		Example: "  oscarfed token show grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *tokenShowCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	status, err := api.RefreshToken(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	return showToken(a, status)
}

type tokenSetCmd struct {
	Service string
	File    string
	Issuer  string
	Client  string
	Cluster string
}

// TokenSet is `oscarfed token set`.
func TokenSet(a *command.App) *cobra.Command {
	var c tokenSetCmd
	cmd := &cobra.Command{
		Use:   "set SERVICE",
		Short: "Give a service a refresh token",
		Long: "Give a service a refresh token, in the place of the one before: its clusters get access tokens\n" +
			"for it when they need them.",
		Example: "  oscarfed token new --file - | oscarfed token set grayify --file -",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.File, "file", "", "", "FILE", "File with the token; - for standard input.")
	f.Text(&c.Issuer, "issuer", "", "", "URL", "Who gave it; without it, the issuer of the access token that you call with.")
	f.Text(&c.Client, "client-id", "", "", "ID", "Whom it was given to; without it, the client of that access token.")
	f.ClusterOf(&c.Cluster)
	f.Required("file")
	return cmd
}

// maxTokenFile is more than any token has, in bytes.
const maxTokenFile = 16 << 10

func (c *tokenSetCmd) Run(ctx context.Context, a *command.App) error {
	token, err := readToken(a, c.File)
	if err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	status, err := api.SetRefreshToken(ctx, c.Service, token, client.RefreshTokenOptions{ClusterID: c.Cluster, Issuer: c.Issuer, ClientID: c.Client})
	if err != nil {
		return err
	}
	return showToken(a, status)
}

// tokenOf gives the service of a file a refresh token that is in another one.
type tokenOf struct {
	RefreshTokenFile string
}

func (t *tokenOf) flag(f command.Flags) {
	f.Text(&t.RefreshTokenFile, "refresh-token-file", "", "", "FILE", "File with a refresh token for the service, as token new makes it, in place of environment.secrets.refresh_token; - for standard input.")
}

// give puts the token into the definition. One token is for one service: an issuer may take it once.
func (t *tokenOf) give(a *command.App, fdlFile string, services []fdl.Service) error {
	switch {
	case t.RefreshTokenFile == "":
		return nil
	case t.RefreshTokenFile == "-" && fdlFile == fdl.Stdin:
		return exit.Usagef("--refresh-token-file and --file are both standard input")
	case len(services) != 1:
		return exit.Usagef("--refresh-token-file is for one service; %s has %d", fdlFile, len(services))
	case services[0].Clone().TakeRefreshToken() != "":
		return exit.Usagef("--refresh-token-file, but the FDL has a refresh token; leave one of them out")
	}
	token, err := readToken(a, t.RefreshTokenFile)
	if err != nil {
		return err
	}
	services[0].GiveRefreshToken(token)
	return nil
}

// readToken reads a token from a file, or from standard input.
func readToken(a *command.App, path string) (string, error) {
	in := a.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", exit.Errorf(exit.Invalid, "%w", err)
		}
		defer f.Close() //nolint:errcheck // it was read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	switch {
	case token == "":
		return "", exit.Errorf(exit.Invalid, "%w", errors.New("there is no token in "+path))
	case len(text) > maxTokenFile:
		return "", exit.Errorf(exit.Invalid, "%w", fmt.Errorf("%s is larger than %d bytes: that is no token", path, maxTokenFile))
	}
	return token, nil
}

type tokenRefreshCmd struct {
	Service string
	Cluster string
}

// TokenRefresh is `oscarfed token refresh`.
func TokenRefresh(a *command.App) *cobra.Command {
	var c tokenRefreshCmd
	cmd := &cobra.Command{
		Use:     "refresh SERVICE",
		Short:   "Bring your access token to waiting clusters",
		Long:    "Bring the access token that you call with to the clusters that wait for one. Changes nothing else.",
		Example: "  oscarfed token refresh grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

// Run sends the definition as it is: any request of the owner's that changes a service, also one
// that changes nothing, brings his access token to the clusters that need it.
func (c *tokenRefreshCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	view, err := api.Replicas(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	// Only the coordinator takes a definition.
	s, err := api.Service(ctx, view.Coordinator.ServiceName, view.Coordinator.ClusterID)
	if err != nil {
		return err
	}
	s.ClusterID = view.Coordinator.ClusterID
	after, err := api.ChangeService(ctx, s, client.ChangeOptions{IfMatch: view.Revision, ClusterID: view.Coordinator.ClusterID})
	if err != nil {
		return err
	}
	return a.Print(after, func() *output.Table { return viewTable(after) })
}

type tokenDeleteCmd struct {
	command.Asking
	Service string
	Cluster string
}

// TokenDelete is `oscarfed token delete`.
func TokenDelete(a *command.App) *cobra.Command {
	var c tokenDeleteCmd
	cmd := &cobra.Command{
		Use:     "delete SERVICE",
		Short:   "Revoke and delete the refresh token",
		Long:    "Revoke the refresh token at its issuer, and delete it on every cluster.",
		Example: "  oscarfed token delete grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	c.Asking.Flags(f)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *tokenDeleteCmd) Run(ctx context.Context, a *command.App) error {
	if err := c.Ask(a, "revoke the refresh token of "+c.Service); err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	status, err := api.DeleteRefreshToken(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	return showToken(a, status)
}

// showToken prints a token's state: a line about it, and a table of the members.
func showToken(a *command.App, s *v1.RefreshTokenStatus) error {
	if a.Form == output.FormTable {
		a.Sayf("%s", tokenLine(s.Token))
	}
	return a.Print(s, func() *output.Table {
		t := output.NewTable("CLUSTER", "SERVICE", "TOKEN", "REASON", "MESSAGE")
		for _, m := range s.Members {
			message := m.Message
			if m.Expires != nil {
				message = "access token until " + m.Expires.UTC().Format(time.RFC3339)
			}
			t.Row(m.ClusterID, m.ServiceName, m.State, m.Reason, message)
		}
		return t
	})
}

// tokenLine says in one line how a refresh token stands.
func tokenLine(t v1.RefreshToken) string { return "refresh token: " + tokenWords(t) }

func tokenWords(t v1.RefreshToken) string {
	line := t.State
	if t.State != "none" {
		line += " on " + t.Holder
	}
	if t.GivenAt != nil {
		line += fmt.Sprintf(", %s old", days(t.AgeS))
	}
	if t.State == "deleted" {
		line += map[bool]string{true: ", revoked at its issuer", false: ", not revoked at its issuer"}[t.Revoked]
	}
	if t.Message != "" {
		line += ": " + t.Message
	}
	if len(t.Waiting) > 0 {
		line += "; waiting for an access token: " + strings.Join(t.Waiting, ", ")
	}
	return line
}

// days says an age in words.
func days(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.Round(time.Second).String()
}
