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

// perIssuer calls set with each of a flag's values, and with the index of the issuer that it is about.
func perIssuer(issuers []string, flag string, values []string, set func(index int, value string) error) error {
	var problems []error
	for _, value := range values {
		i, rest, err := ofIssuer(issuers, flag, value)
		if err == nil {
			err = set(i, rest)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// issuersOf are the issuers that a syncer may exchange refresh tokens at. Without read,
// no secret is read.
func issuersOf(cfg Syncer, read func(path string) (string, error)) ([]token.Issuer, error) {
	var out []token.Issuer
	var problems []error
	for i, url := range cfg.OIDCIssuers {
		problems = append(problems, openid.CheckIssuer(url),
			when(slices.Contains(cfg.OIDCIssuers[:i], url), "--oidc-issuer "+url+" is given twice"))
		out = append(out, token.Issuer{URL: url})
	}
	ids := perIssuer(cfg.OIDCIssuers, "oidc-client-id", cfg.OIDCClientIDs, func(i int, id string) error {
		out[i].ClientID = id
		return nil
	})
	secrets := perIssuer(cfg.OIDCIssuers, "oidc-client-secret-file", cfg.OIDCClientSecrets, func(i int, path string) (err error) {
		if read == nil {
			return nil
		}
		if out[i].Secret, err = read(path); err != nil {
			return fmt.Errorf("the client's secret for issuer %s: %w", out[i].URL, err)
		}
		return nil
	})
	return out, errors.Join(append(problems, ids, secrets)...)
}

// issuersProblem is what is wrong with the flags of the issuers.
func issuersProblem(cfg Syncer) error {
	_, err := issuersOf(cfg, nil)
	return err
}

// loginIssuers are what those who want to log in are told.
func loginIssuers(cfg ControlPlane) ([]v1.LoginIssuer, error) {
	var out []v1.LoginIssuer
	for _, url := range cfg.OIDCIssuers {
		out = append(out, v1.LoginIssuer{Issuer: url, Scopes: cfg.OIDCScopes})
	}
	ids := perIssuer(cfg.OIDCIssuers, "oidc-client-id", cfg.OIDCClientIDs, func(i int, id string) error {
		out[i].ClientID = id
		return nil
	})
	return out, errors.Join(when(len(out) == 0 && len(cfg.OIDCScopes) > 0, "--oidc-scope needs an --oidc-issuer"), ids)
}

// loginProblem is what is wrong with the flags of logging in.
func loginProblem(cfg ControlPlane) error {
	_, err := loginIssuers(cfg)
	return err
}
