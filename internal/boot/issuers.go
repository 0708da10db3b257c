package boot

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/openid"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// ofIssuer finds which of the issuers a flag's value [URL=]VALUE is about, by its index, and the
// value. Without URL= it is about the only one.
func ofIssuer(issuers []string, flag, value string) (index int, rest string, err error) {
	for i, url := range issuers {
		if rest, ok := strings.CutPrefix(value, url+"="); ok {
			return i, rest, nil
		}
	}
	if len(issuers) == 1 && !strings.Contains(value, "://") {
		return 0, value, nil
	}
	return 0, "", fmt.Errorf("--%s %q does not say of which --oidc-issuer: write URL=%s", flag, value, value)
}

// issuersOf are the issuers that a syncer may exchange refresh tokens at. Without read,
// no secret is read.
func issuersOf(cfg Syncer, read func(path string) (string, error)) ([]token.Issuer, error) {
	var out []token.Issuer
	var problems []error
	for _, url := range cfg.OIDCIssuers {
		problems = append(problems, openid.CheckIssuer(url))
		out = append(out, token.Issuer{URL: url})
	}
	for _, value := range cfg.OIDCClientIDs {
		i, id, err := ofIssuer(cfg.OIDCIssuers, "oidc-client-id", value)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out[i].ClientID = id
	}
	for _, value := range cfg.OIDCClientSecrets {
		i, path, err := ofIssuer(cfg.OIDCIssuers, "oidc-client-secret-file", value)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if read == nil {
			continue
		}
		secret, err := read(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("the client's secret for issuer %s: %w", out[i].URL, err))
		}
		out[i].Secret = secret
	}
	for i, one := range out {
		if slices.ContainsFunc(out[:i], func(o token.Issuer) bool { return o.URL == one.URL }) {
			problems = append(problems, fmt.Errorf("--oidc-issuer %s is given twice", one.URL))
		}
	}
	return out, errors.Join(problems...)
}

// issuersProblem is what is wrong with the flags of the issuers.
func issuersProblem(cfg Syncer) error {
	_, err := issuersOf(cfg, nil)
	return err
}

// loginIssuers are what those who want to log in are told.
func loginIssuers(cfg ControlPlane) []v1.LoginIssuer {
	var out []v1.LoginIssuer
	for _, url := range cfg.OIDCIssuers {
		out = append(out, v1.LoginIssuer{Issuer: url, Scopes: cfg.OIDCScopes})
	}
	for _, value := range cfg.OIDCClientIDs {
		if i, id, err := ofIssuer(cfg.OIDCIssuers, "oidc-client-id", value); err == nil {
			out[i].ClientID = id
		}
	}
	return out
}

// loginProblem is what is wrong with the flags of logging in.
func loginProblem(cfg ControlPlane) error {
	problems := []error{when(len(cfg.OIDCIssuers) == 0 && len(cfg.OIDCScopes) > 0, "--oidc-scope needs an --oidc-issuer")}
	for _, value := range cfg.OIDCClientIDs {
		_, _, err := ofIssuer(cfg.OIDCIssuers, "oidc-client-id", value)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
