package view

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// TimeOf is the time of a record; nil for none.
func TimeOf(t *record.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}
