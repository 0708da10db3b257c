package fdl

import (
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// UnknownKeys names the keys that have no effect, since nothing knows them.
func UnknownKeys(services []Service) (out []oscar.Violation) {
	for _, s := range services {
		for _, u := range oscar.UnknownKeys(s.Service) {
			out = append(out, oscar.Violation{
				Path: s.At() + ": " + u.Path, Message: "nothing knows this key, and it has no effect" + suggest.Words(u.Key, u.Known),
			})
		}
	}
	return out
}
