package manager

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	// hidden stands for a secret.
	hidden = "***"
	// MaxMessage is how much of OSCAR's text a report quotes, in bytes.
	MaxMessage = 500
	// shortSecret is the length below which a secret is hidden only where it is
	// quoted: elsewhere, hiding "a" or "1" would leave nothing to read.
	shortSecret = 4
)

// Scrub takes secrets out of a text that comes from OSCAR, which may quote what
// it was sent, plain or as JSON, and may have been cut in the middle of one. Then
// it is cut to what a report holds.
func Scrub(text string, secrets ...string) string {
	var forms []string
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		quoted, err := json.Marshal(secret)
		if err != nil {
			continue
		}
		if len(secret) < shortSecret {
			forms = append(forms, string(quoted))
			continue
		}
		forms = append(forms, secret, strings.Trim(string(quoted), `"`))
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, hidden)
	}
	for _, form := range forms {
		for n := len(form) - 1; n >= shortSecret; n-- {
			if strings.HasSuffix(text, form[:n]) {
				text = text[:len(text)-n] + hidden
				break
			}
		}
	}
	return Cut(text, MaxMessage)
}
