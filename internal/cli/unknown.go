package cli

import (
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// warnOfUnknown names the keys that have no effect, since nothing knows them: an error when strict.
func (a *app) warnOfUnknown(services []fdl.Service, strict bool) error {
	var violations []oscar.Violation
	for _, s := range services {
		for _, u := range oscar.UnknownKeys(s.Service) {
			text := "nothing knows this key, and it has no effect" + suggest.Words(u.Key, u.Known)
			violations = append(violations, oscar.Violation{Path: s.At() + ": " + u.Path, Message: text})
			if !strict {
				a.sayf("warning: %s: %s: %s", s.At(), u.Path, text)
			}
		}
	}
	if strict && len(violations) > 0 {
		return fdl.Invalid(violations)
	}
	return nil
}
