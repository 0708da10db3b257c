package fault

import (
	"fmt"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

// Code says what kind of answer an error is; package api/server has the one table that
// maps it to an HTTP status.
type Code string

// The codes are the words of answers, with a type.
const (
	CodeInvalid            Code = v1.CodeInvalid
	CodeUnauthenticated    Code = v1.CodeUnauthenticated
	CodeForbidden          Code = v1.CodeForbidden
	CodeNotFound           Code = v1.CodeNotFound
	CodeAlreadyExists      Code = v1.CodeAlreadyExists
	CodeConflict           Code = v1.CodeConflict
	CodeTooLarge           Code = v1.CodeTooLarge
	CodeUnsupportedType    Code = v1.CodeUnsupportedType
	CodeFailedPrecondition Code = v1.CodeFailedPrecondition
	CodeReplicaFailed      Code = v1.CodeReplicaFailed
	// CodeExpired says that a revision which the caller named is no longer kept.
	CodeExpired        Code = v1.CodeExpired
	CodeExhausted      Code = v1.CodeExhausted
	CodeUnavailable    Code = v1.CodeUnavailable
	CodeUnknownOutcome Code = v1.CodeUnknownOutcome
	// CodeNotServed refuses an operation that OSCAR has and a control plane never does.
	CodeNotServed Code = v1.CodeNotServed
	CodeInternal  Code = v1.CodeInternal
)

// Error is what a use case answers when it does not do what was asked.
type Error struct {
	Code Code
	// Message says what to do: the value, the limit, the way out.
	Message string
	// Violations of an invalid request: all of them. An answer counts them in place of Message.
	Violations []oscar.Violation
	// Failed is the outcome of a creation that failed.
	Failed *FailedCreate
	// Candidates are the clusters that a bare service name could mean.
	Candidates []string
	// Location is where an outcome that is not known yet can be looked up.
	Location string
	// Continue goes with expired: a token with which a list goes on.
	Continue string
	// RetryAfter goes with unavailable and exhausted; 0 when there is none.
	RetryAfter time.Duration
	// Cause is for the log only; it never reaches a caller.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	parts := []string{string(e.Code)}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	for _, v := range e.Violations {
		parts = append(parts, v.Error())
	}
	if e.Cause != nil {
		parts = append(parts, e.Cause.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// FailedCreate is a creation that was refused by a vote (phase aborted) or whose
// apply failed (phase rolling_back or rolled_back).
type FailedCreate struct {
	// Failed has the replicas in the order of the federation's members; those that failed have a
	// cause.
	v1.Failed
	GroupID string
	Service string
	Phase   record.Phase
}

// Wire is nil for nil.
func (f *FailedCreate) Wire() *v1.Failed {
	if f == nil {
		return nil
	}
	return &f.Failed
}

// Invalid refuses a request for everything that is wrong with it.
func Invalid(violations ...oscar.Violation) *Error {
	return &Error{Code: CodeInvalid, Violations: violations}
}

// NotFound is the error for a thing that does not exist, or that the caller may not see.
func NotFound(message string) *Error { return &Error{Code: CodeNotFound, Message: message} }

// AdminOnly refuses a caller who is not the administrator what he asks for.
func AdminOnly(what string) error {
	return &Error{Code: CodeForbidden, Message: "only the administrator may " + what}
}

// Callers are asked to pause this long while etcd has no space to spare.
const (
	RetryShort = 30 * time.Second
	RetryFull  = time.Minute
)

// NewerVersion refuses to act on a record with a word that this version does not know: acting
// on a record that it misreads could do harm.
func NewerVersion(what, word string) error {
	return &Error{Code: CodeUnavailable, RetryAfter: time.Minute, Message: StrangeMessage(what, word)}
}

// StrangeMessage says that the record of what has a word of a newer version.
func StrangeMessage(what, word string) string {
	return fmt.Sprintf("the record of %s has the %s: a newer version of the control plane wrote it, and this one leaves it as it is; "+
		"ask an instance of that version, or bring this one to it", what, word)
}
