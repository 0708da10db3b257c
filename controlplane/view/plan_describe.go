package view

import (
	"time"
)

// Away says that a cluster has no syncer, and since when.
func Away(lastSeen *time.Time) string {
	if lastSeen == nil {
		return "no syncer is connected"
	}
	return "no syncer since " + lastSeen.UTC().Format(time.RFC3339)
}
