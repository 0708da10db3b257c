package respond

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// InternalMessage is all that a caller learns of an internal error, besides the
// request id that finds the cause in the log.
const InternalMessage = "internal error; the log of the control plane has the cause under this request id"

// challenge is OSCAR's: clients show it to their users.
const challenge = `Basic realm="Authorization Required"`

// Errorf is an error of a use case, for the caller.
func Errorf(code fault.Code, format string, args ...any) error {
	return &fault.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Fail answers a request with an error, logs what the caller must not see, and
// is the only place that does either.
func Fail(log *slog.Logger, w http.ResponseWriter, r *http.Request, err error) {
	e := AsError(r, err)
	if st := StateOf(r); e.Code == fault.CodeUnknownOutcome && e.Location == "" && st.Location != "" {
		known := *e
		known.Location, e = st.Location, &known
	}
	code := statusOfError(e, r)
	if code >= http.StatusInternalServerError && e.Code != fault.CodeNotServed || e.Cause != nil {
		level := slog.LevelWarn
		hungUp := errors.Is(context.Cause(r.Context()), context.Canceled)
		switch {
		case code == http.StatusInternalServerError:
			level = slog.LevelError
		case hungUp:
			level = slog.LevelInfo
		}
		log.LogAttrs(r.Context(), level, "request failed",
			slog.String("request_id", StateOf(r).ID), slog.String("route", RouteOf(r)),
			slog.String("code", string(e.Code)), slog.Any("error", err), slog.Bool("caller_hung_up", hungUp))
	}
	h := w.Header()
	switch e.Code {
	case fault.CodeUnauthenticated:
		h.Set("WWW-Authenticate", challenge)
	case fault.CodeUnavailable, fault.CodeExhausted:
		h.Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(e.RetryAfter.Seconds())))))
	}
	if e.Location != "" {
		h.Set("Location", e.Location)
	}
	if e.Continue != "" {
		h.Set(v1.ContinueHeader, e.Continue)
	}
	Problem(w, r, ProblemOf(r, e))
}

// AsError makes an error of the control plane out of any error. An error that it does not know is
// internal. A deadline is a code of its own, since the caller waits for an answer: a write that it
// cut off may have happened.
func AsError(r *http.Request, err error) *fault.Error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if kindOf(e.Code).status == http.StatusInternalServerError {
			return &fault.Error{Code: fault.CodeInternal, Message: InternalMessage, Cause: err}
		}
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return &fault.Error{
				Code: fault.CodeUnavailable, Message: "the store did not answer in time", RetryAfter: time.Second, Cause: err,
			}
		}
		return &fault.Error{
			Code: fault.CodeUnknownOutcome, Message: "the store did not answer in time; the change may have happened", Cause: err,
		}
	}
	return &fault.Error{Code: fault.CodeInternal, Message: InternalMessage, Cause: err}
}

// InternalProblem is the answer when there is no error to tell of.
func InternalProblem(r *http.Request) v1.Problem {
	return ProblemOf(r, &fault.Error{Code: fault.CodeInternal, Message: InternalMessage})
}

// ProblemOf is an error as the contract writes it.
func ProblemOf(r *http.Request, e *fault.Error) v1.Problem {
	st, k := StateOf(r), kindOf(e.Code)
	p := v1.Problem{
		Type:      v1.ProblemURN + string(e.Code),
		Title:     k.title,
		Status:    statusOfError(e, r),
		Code:      string(e.Code),
		Detail:    e.Message,
		Instance:  r.URL.Path,
		RequestID: st.ID,
		Clusters:  e.Candidates,
	}
	if e.Code == fault.CodeInvalid {
		p.Title = fmt.Sprintf(k.title, st.Noun)
	}
	if e.Location != "" {
		p.Instance = e.Location
	}
	if n := len(e.Violations); n > 0 {
		p.Detail = strconv.Itoa(n) + " violation" + plural(n)
		p.Violations = make([]v1.Violation, n)
		for i, v := range e.Violations {
			p.Violations[i] = v1.Violation{Path: v.Path, Rule: v.Rule, Value: v.Value, Message: v.Message}
		}
	}
	if f := e.Failed; f != nil {
		p.Title = failedCreateTitle
		if st.Change {
			p.Title = failedChangeTitle
		}
		p.Instance = ReplicasPath(f.Service)
		p.GroupID, p.Phase, p.Rollback = f.GroupID, string(f.Phase), f.Rollback
		p.Replicas = f.Replicas
		if p.Detail == "" {
			p.Detail = firstCause(p.Replicas)
		}
	}
	return p
}

// firstCause is the sentence that names the first replica with a cause.
func firstCause(replicas []v1.FailedReplica) string {
	for _, m := range replicas {
		if m.Cause == nil {
			continue
		}
		if m.Cause.Status != 0 {
			return fmt.Sprintf("%s: %s answered %d", addressOfReplica(m), m.Cause.Operation, m.Cause.Status)
		}
		return addressOfReplica(m) + ": " + m.Cause.Reason
	}
	return ""
}

func addressOfReplica(m v1.FailedReplica) string { return m.ClusterID + "/" + m.ServiceName }

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Problem chooses the form: a problem document on our own paths and for every caller that
// asks for one, text on OSCAR's paths, and nothing where OSCAR says nothing.
func Problem(w http.ResponseWriter, r *http.Request, p v1.Problem) {
	if !StateOf(r).OSCAR || acceptsProblem(r) {
		if writeJSONType(w, p.Status, v1.ProblemType, p) == nil {
			return
		}
		// A violation's value is one that JSON does not have: say it as text.
	} else if p.Status == http.StatusUnauthorized || p.Status == http.StatusNotFound {
		w.WriteHeader(p.Status)
		return
	}
	Text(w, p.Status, problemText(p, StateOf(r)))
}

// acceptsProblem says whether Accept names the problem's media type. A wildcard
// does not name it: every client sends one.
func acceptsProblem(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(line string) bool {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(media), v1.ProblemType) && !refused(params) {
				return true
			}
		}
		return false
	})
}

// refused says whether the parameters of a media range give it quality 0.
func refused(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q == 0
		}
	}
	return false
}

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
	case fault.CodeExpired:
		return kind{http.StatusGone, "The revision is no longer kept"}
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
	if e.Code == fault.CodeConflict && r.Header.Get(IfMatch) != "" && len(e.Candidates) == 0 {
		return http.StatusPreconditionFailed
	}
	return kindOf(e.Code).status
}

// ReplicasPath is where a federation can be looked up by one of its services.
func ReplicasPath(service string) string { return "/system/replicas/" + url.PathEscape(service) }
