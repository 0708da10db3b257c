package syncer

import (
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/services"
)

// JobFailPoints lists the fail points that a job passes.
func JobFailPoints() []string { return jobs.FailPoints() }

// FailPoints lists the fail points of services.
func FailPoints() []string { return services.FailPoints() }
