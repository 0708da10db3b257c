package view

import (
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// JobPosition is the place of a job in the order of acceptance, by which lists of jobs are sorted as strings. That of
// a job that was accepted here is its id, a UUIDv7. A Job that a cluster offered has an id that Kubernetes made, a
// UUIDv4: its position is the time of its acceptance, as a UUIDv7 begins, a slash, and the id.
type JobPosition string

// PositionOf is the position of a job.
func PositionOf(j *record.Job) JobPosition {
	if p := JobPosition(j.Job); !j.Offered && p.Valid() {
		return p
	}
	return JobPosition(record.FirstUID(j.AcceptedAt.Time) + "/" + j.Job)
}

// ID is the id of the job. No id has a slash.
func (p JobPosition) ID() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// Valid says whether p can be the position of a job.
func (p JobPosition) Valid() bool {
	const uuid, version = 36, 14
	return strings.Contains(string(p), "/") || len(p) == uuid && p[version] == '7'
}
