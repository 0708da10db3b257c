package boot

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/syncer/token"
)

// issuersOf are the issuers that a syncer may exchange refresh tokens at. Without read,
// no secret is read.
func issuersOf(cfg Syncer, read func(path string) (string, error)) ([]token.Issuer, error) {
	var out []token.Issuer
	var problems []error
	for _, url := range cfg.OIDCIssuers {
		problems = append(problems, token.CheckIssuer(url))
		out = append(out, token.Issuer{URL: url})
	}
	of := func(flag, value string) (*token.Issuer, string) {
		for i := range out {
			if rest, ok := strings.CutPrefix(value, out[i].URL+"="); ok {
				return &out[i], rest
			}
		}
		if len(out) == 1 && !strings.Contains(value, "://") {
			return &out[0], value
		}
		problems = append(problems, fmt.Errorf("--%s %q does not say of which --oidc-issuer: write URL=%s", flag, value, value))
		return nil, ""
	}
	for _, value := range cfg.OIDCClientIDs {
		if iss, id := of("oidc-client-id", value); iss != nil {
			iss.ClientID = id
		}
	}
	for _, value := range cfg.OIDCClientSecrets {
		iss, path := of("oidc-client-secret-file", value)
		if iss == nil || read == nil {
			continue
		}
		secret, err := read(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("the client's secret for issuer %s: %w", iss.URL, err))
		}
		iss.Secret = secret
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
