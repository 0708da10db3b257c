package decide

import (
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// narrowed says whether fewer users may see a federation than before.
func narrowed(old, next *record.Federation) bool {
	width := func(f *record.Federation) int {
		switch f.Visibility {
		case oscar.VisibilityPublic:
			return 2
		case oscar.VisibilityRestricted:
			return 1
		}
		return 0
	}
	if width(next) != width(old) {
		return width(next) < width(old)
	}
	return width(next) == 1 && slices.ContainsFunc(old.AllowedUsers, func(user string) bool { return !slices.Contains(next.AllowedUsers, user) })
}

// rotation is the least TokenRotation of next at which none of its replicas accepts a token that
// was replaced in old, or that a user has who may not see it any more.
func rotation(old, next *record.Federation) int64 {
	if narrowed(old, next) {
		return old.TokenRotation + 1
	}
	return old.TokenRotation
}
