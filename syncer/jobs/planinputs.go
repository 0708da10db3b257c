package jobs

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// failedLook bounds how long the report of a failure waits for a look at the origin.
const failedLook = 90 * time.Second

// ofInputs says of a job that has failed whether it is taken for certain that it failed for
// its inputs, and waits for that as long as it may be so. All of it must hold:
//
//   - its event names an object in the MinIO of its origin, which OSCAR's supervisor fetches
//     before it runs anything of the service;
//   - it had not started when that MinIO was last found to answer;
//   - the next look, after it had failed, has found that it does not.
//
// What is assumed is that a MinIO which does not answer then had not answered to the job
// either. All times are of this process.
func (s situation) ofInputs(d decision) decision {
	m := s.memory
	if d.state != record.JobFailed || !m.fromOrigin || m.failed.IsZero() || s.minio.Readable.IsZero() || !m.unstarted.After(s.minio.Readable) {
		return d
	}
	switch {
	case s.minio.Dead.After(m.failed):
		d.reason, d.message = record.JobInputsUnreadable, "it failed while the MinIO of its origin, which it reads first, did not answer"
		return d
	case s.now.Sub(m.failed) < failedLook:
		return restFor(time.Second)
	}
	return d // nobody has looked since
}
