package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// kind is what a code means in HTTP, and how its problem is titled.
type kind struct {
	status int
	title  string
}

// kindOf is the one table from code to status. It never answers 207, 206 or
// 502: clients of OSCAR take those for failures without a text. A code that it
// does not know is an internal error.
func kindOf(code fault.Code) kind {
	switch code {
	case fault.CodeInvalid:
		return kind{http.StatusBadRequest, "The %s is not valid"}
	case fault.CodeUnauthenticated:
		return kind{http.StatusUnauthorized, "Authentication is required"}
	case fault.CodeForbidden:
		return kind{http.StatusForbidden, "This caller may not do this"}
	case fault.CodeNotFound:
		return kind{http.StatusNotFound, "There is nothing of this name"}
	case fault.CodeAlreadyExists:
		return kind{http.StatusConflict, "The name is taken"}
	case fault.CodeConflict:
		return kind{http.StatusConflict, "The request conflicts with the present state"}
	case fault.CodeTooLarge:
		return kind{http.StatusRequestEntityTooLarge, "The request is too large"}
	case fault.CodeUnsupportedType:
		return kind{http.StatusUnsupportedMediaType, "The body is of a type that is not read here"}
	case fault.CodeFailedPrecondition:
		return kind{http.StatusUnprocessableEntity, "The request cannot be carried out as it is"}
	case fault.CodeReplicaFailed:
		return kind{http.StatusFailedDependency, "A replica failed"}
	case fault.CodeExhausted:
		return kind{http.StatusTooManyRequests, "Too many requests"}
	case fault.CodeUnavailable:
		return kind{http.StatusServiceUnavailable, "The request cannot be carried out now"}
	case fault.CodeUnknownOutcome:
		return kind{http.StatusGatewayTimeout, "The outcome is not known yet"}
	case fault.CodeNotServed:
		return kind{http.StatusNotImplemented, "A control plane does not do this"}
	}
	return kind{http.StatusInternalServerError, "Internal error"}
}

// failedCreateTitle is the title of every problem that carries a failed creation.
const failedCreateTitle = "The service could not be created on every cluster"

// failedChangeTitle is that of a change whose added members did not all vote yes.
const failedChangeTitle = "The federation is not changed, since a cluster did not agree"

// statusOfError is the status of one error: a conflict is a failed precondition
// in HTTP's sense when the caller named the revision that he wants to change. A
// name that means several services, or another one, is none: no revision helps.
func statusOfError(e *fault.Error, r *http.Request) int {
	if e.Code == fault.CodeConflict && r.Header.Get(ifMatchHeader) != "" && len(e.Candidates) == 0 {
		return http.StatusPreconditionFailed
	}
	return kindOf(e.Code).status
}
