package login

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/openid"
)

// agentTimeout bounds a call of oidc-agent, which may ask its user for a password.
const agentTimeout = 2 * time.Minute

// FromAgent is a login whose tokens an account of oidc-agent gives; one is asked for.
func FromAgent(ctx context.Context, account string) (Record, error) {
	_, err := agentToken(ctx, account)
	return Record{Agent: account}, err
}

// agentToken asks oidc-agent's own program for an access token that is good for a while.
func agentToken(ctx context.Context, account string) (string, error) {
	if account == "" || strings.HasPrefix(account, "-") {
		return "", exit.Usagef("%q is no account of oidc-agent; oidc-add --loaded lists them", account)
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "oidc-token", fmt.Sprintf("--time=%d", 2*margin/time.Second), account) //nolint:gosec // an account is one argument, and no flag
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, time.Second
	err := cmd.Run()
	token := strings.TrimSpace(out.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", exit.Errorf(exit.Failed, "oidc-agent: there is no program oidc-token here")
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", exit.Errorf(exit.NotAuthorised, "oidc-agent gives no token for %q (oidc-add %s loads the account): %.200s",
			account, account, strings.TrimSpace(said.String()))
	case !isToken(token):
		return "", exit.Errorf(exit.Failed, "oidc-agent: oidc-token printed no token for %q", account)
	}
	return token, nil
}

// FromOscarCLI reads the account of a cluster in the configuration of oscar-cli: that of oidc-agent
// or a refresh token, whose issuer and client are in it unless they are given. The cluster is
// oscar-cli's default one when it is empty.
func FromOscarCLI(path, cluster, issuer, clientID string) (Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return Record{}, exit.Errorf(exit.NotFound, "oscar-cli: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return Record{}, fmt.Errorf("oscar-cli: %w", err)
	}
	var has struct {
		Clusters map[string]struct {
			Account string `json:"oidc_account_name"`
			Refresh string `json:"oidc_refresh_token"`
		} `json:"oscar"`
		Default string `json:"default"`
	}
	if yaml.Unmarshal(data, &has) != nil { // its error may quote a token
		return Record{}, exit.Errorf(exit.Invalid, "oscar-cli: %s is no configuration of oscar-cli", path)
	}
	cluster = cmp.Or(cluster, has.Default)
	one, ok := has.Clusters[cluster]
	switch {
	case !ok:
		return Record{}, exit.Errorf(exit.NotFound, "oscar-cli: %s has no cluster %q; there: %s", path, cluster,
			strings.Join(slices.Sorted(maps.Keys(has.Clusters)), ", "))
	case one.Account != "":
		return Record{Agent: one.Account}, nil
	case one.Refresh == "":
		return Record{}, exit.Errorf(exit.Invalid, "oscar-cli: cluster %q has no account of oidc-agent and no refresh token; "+
			"the name and password of an OSCAR are good there alone", cluster)
	case !isToken(one.Refresh):
		return Record{}, exit.Errorf(exit.Invalid, "oscar-cli: the refresh token of cluster %q is no token", cluster)
	}
	claimed := openid.Unproven(one.Refresh)
	r := Record{Issuer: cmp.Or(issuer, claimed.Issuer), ClientID: cmp.Or(clientID, claimed.Party), RefreshToken: one.Refresh, Borrowed: true}
	if r.Issuer == "" || r.ClientID == "" {
		return Record{}, exit.Usagef("oscar-cli: the refresh token of cluster %q does not say whose it is: give --issuer and --client-id", cluster)
	}
	return r, nil
}
