package view

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Changes lists what one refresh of the state has changed.
type Changes struct {
	// Federations, by uid, and Clusters that a change concerns. The empty cluster stands
	// for the fence.
	Federations, Clusters map[string]bool
	// Jobs, by id, Capacity says that some cluster has more or less to give, and Freed lists the
	// clusters that may have more.
	Jobs     map[string]bool
	Capacity bool
	Freed    map[string]bool
	// Ended lists clusters whose session has ended. Departed lists those that are being
	// removed, or were. Forgiven lists those that are readmitted, or that are registered anew.
	Ended, Departed, Forgiven []string
	// Readings are the keys of reports that a refresh token was read.
	Readings []string
	// Meta is set when the meta record was written.
	Meta *record.Meta
	// Corrupt are errors of records that cannot be read, and Strange the words of a newer
	// version, by the key of their record.
	Corrupt []error
	Strange map[string]string
	// shown lists clusters whose appearance to callers has changed, and formerly the names that
	// federations had before.
	shown    map[string]bool
	formerly []string
}

func newChanges() *Changes {
	return &Changes{Federations: map[string]bool{}, Clusters: map[string]bool{}, Jobs: map[string]bool{}, Freed: map[string]bool{}, Strange: map[string]string{}, shown: map[string]bool{}}
}
