package exit

import (
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// The statuses that a command ends with.
const (
	Done = 0
	// Failed is for what was tried and did not work.
	Failed = 1
	// Usage is for a command line that means nothing; nothing was tried.
	Usage = 2
	// Invalid is for a definition that breaks rules, or is too large.
	Invalid = 3
	// NotAuthorised is for credentials that are missing, wrong or not enough.
	NotAuthorised = 4
	// NotFound is for what does not exist, or not for the caller.
	NotFound = 5
	// Conflict is for a name that is taken and a state that does not allow it.
	Conflict = 6
	// NotReachable is for an API, or a cluster that is needed, which does not answer.
	NotReachable = 7
	// InProgress is for work that goes on, and outcomes that are not known.
	InProgress = 8
)

// statusError is an error with the status that it means.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// Temporary says that what does not answer may do so in a moment: a watch goes on then, see client.Config.
func (e *statusError) Temporary() bool { return e.status == NotReachable }

// Errorf is an error with the status that it means.
func Errorf(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

// Usagef is an error with the status Usage.
func Usagef(format string, args ...any) error {
	return Errorf(Usage, format, args...)
}

// StatusOf is the one place that turns an error into a status.
func StatusOf(err error) int {
	if err == nil {
		return Done
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return StatusOfCode(e.Problem.Code)
	}
	return Failed
}

// StatusOfCode is the status of an answer of the API. A code that a newer API
// may have is a failure.
func StatusOfCode(code string) int {
	switch code {
	case v1.CodeInvalid, v1.CodeTooLarge:
		return Invalid
	case v1.CodeUnauthenticated, v1.CodeForbidden:
		return NotAuthorised
	case v1.CodeNotFound:
		return NotFound
	case v1.CodeAlreadyExists, v1.CodeConflict:
		return Conflict
	case v1.CodeUnavailable:
		return NotReachable
	case v1.CodeUnknownOutcome:
		return InProgress
	}
	return Failed
}
