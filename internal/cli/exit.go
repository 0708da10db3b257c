package cli

import (
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// The statuses that a command ends with.
const (
	ExitDone = 0
	// ExitFailed is for what was tried and did not work.
	ExitFailed = 1
	// ExitUsage is for a command line that means nothing; nothing was tried.
	ExitUsage = 2
	// ExitInvalid is for a definition that breaks rules, or is too large.
	ExitInvalid = 3
	// ExitNotAuthorised is for credentials that are missing, wrong or not enough.
	ExitNotAuthorised = 4
	ExitNotFound      = 5
	// ExitConflict is for a name that is taken and a state that does not allow it.
	ExitConflict = 6
	// ExitNotReachable is for an API, or a cluster that is needed, which does not answer.
	ExitNotReachable = 7
	// ExitInProgress is for work that goes on, and outcomes that are not known.
	ExitInProgress = 8
)

// statusError is an error of this package with the status that it means.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func withStatus(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

func usageError(format string, args ...any) error {
	return withStatus(ExitUsage, format, args...)
}

// statusOf is the one place that turns an error into a status.
func statusOf(err error) int {
	if err == nil {
		return ExitDone
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return statusOfCode(e.Problem.Code)
	}
	return ExitFailed
}

// statusOfCode is the status of an answer of the API. A code that a newer API
// may have is a failure.
func statusOfCode(code string) int {
	switch code {
	case v1.CodeInvalid, v1.CodeTooLarge:
		return ExitInvalid
	case v1.CodeUnauthenticated, v1.CodeForbidden:
		return ExitNotAuthorised
	case v1.CodeNotFound:
		return ExitNotFound
	case v1.CodeAlreadyExists, v1.CodeConflict:
		return ExitConflict
	case v1.CodeUnavailable:
		return ExitNotReachable
	case v1.CodeUnknownOutcome:
		return ExitInProgress
	}
	return ExitFailed
}
