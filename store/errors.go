package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The errors of this package. Every error that comes from etcd wraps one of them
// when it has one of these meanings; test with errors.Is.
var (
	// ErrNotFound says that a key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists says that a key exists whose absence was expected.
	ErrExists = errors.New("exists already")
	// ErrCompacted says that a revision is no longer in etcd's history: list again.
	ErrCompacted = errors.New("revision is compacted")
	// ErrTooLarge says that a request passes a limit of etcd. Nothing was sent or applied.
	ErrTooLarge = errors.New("too large for one transaction")
	// ErrUnavailable says that etcd did not answer, or cannot take this now. A
	// write that ends so was surely not applied.
	ErrUnavailable = errors.New("etcd is not available")
	// ErrFull says that etcd's space quota is used up: reads and deletions work, writes do not.
	ErrFull = fmt.Errorf("%w: its space quota is used up; compact, defragment and disarm the alarm", ErrUnavailable)
	// ErrUnknownOutcome says that a write may or may not have been applied, or
	// may still be. Repeat it with the same request id.
	ErrUnknownOutcome = errors.New("outcome of the write is unknown")
	// ErrDenied says that etcd does not let this user do that, or does not know him.
	ErrDenied = errors.New("denied by etcd")
	// ErrSessionLost says that the session whose life was expected has ended: its
	// key is gone, or belongs to another.
	ErrSessionLost = errors.New("session is lost")
	// ErrOldServer says that an etcd member runs a release with known holes.
	ErrOldServer = errors.New("etcd server is too old")
)

// ConflictError says that a key is not at the revision that was expected.
type ConflictError struct {
	Key string
	// Want and Have are mod revisions; 0 stands for absent.
	Want, Have int64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at revision %d, not at %d", e.Key, e.Have, e.Want)
}

// CorruptError says that the record at a key cannot be decoded.
type CorruptError struct {
	Key string
	Err error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("record %s: %v", e.Key, e.Err) }

// Unwrap returns what the decoder said.
func (e *CorruptError) Unwrap() error { return e.Err }

// translate is the one crossing from etcd's errors to those of this package.
// What it does not know passes unchanged.
func translate(err error) error {
	if err == nil {
		return nil
	}
	for _, ours := range []error{ErrCompacted, ErrTooLarge, ErrUnavailable, ErrDenied, ErrSessionLost} {
		if errors.Is(err, ours) {
			return err
		}
	}
	if meaning := meaningOf(err); meaning != nil {
		return fmt.Errorf("%w: %w", meaning, err)
	}
	return err
}

func meaningOf(err error) error {
	switch {
	case isEtcd(err, rpctypes.ErrCompacted):
		return ErrCompacted
	case isEtcd(err, rpctypes.ErrNoSpace):
		return ErrFull
	case isEtcd(err, rpctypes.ErrRequestTooLarge), isEtcd(err, rpctypes.ErrTooManyOps):
		return ErrTooLarge
	case isEtcd(err, rpctypes.ErrLeaseNotFound):
		return ErrSessionLost
	case isEtcd(err, rpctypes.ErrTooManyRequests), isEtcd(err, rpctypes.ErrFutureRev):
		return ErrUnavailable
	case isEtcd(err, rpctypes.ErrUserEmpty), isEtcd(err, rpctypes.ErrAuthFailed),
		isEtcd(err, rpctypes.ErrAuthOldRevision):
		return ErrDenied
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ErrUnavailable
	}
	switch codeOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return ErrDenied
	case codes.ResourceExhausted:
		return ErrTooLarge // gRPC's own limit on the size of a message
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return ErrUnavailable
	}
	if stops(err) {
		return ErrUnavailable
	}
	return nil
}

// stops says whether a member of etcd answers so for a moment while it stops. Nothing but the text tells.
func stops(err error) bool {
	return codeOf(err) == codes.Unknown && slices.ContainsFunc([]string{
		"raft: stopped",
		// It serves HTTP on the same port, which goes on a little longer than gRPC. So answers a proxy whose server is away, too.
		"unexpected HTTP status code received from server",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// surelyNotApplied says whether etcd refused a write before it could take
// effect. Everything else, timeouts and broken connections above all, may have
// been applied, or may still be: a proposal waits in a server's queue for seconds.
func surelyNotApplied(err error) bool {
	switch {
	case isEtcd(err, rpctypes.ErrNoLeader):
		return true // refused on arrival, since the request demands a leader
	case isEtcd(err, rpctypes.ErrNoSpace):
		return false // the write that passes the quota is applied, and called refused
	}
	switch codeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange,
		codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}

// isTimeout says whether a call ended since its own time was over.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || codeOf(err) == codes.DeadlineExceeded
}

// worthRepeating says whether a refused request may succeed in a moment.
func worthRepeating(err error) bool {
	return isEtcd(err, rpctypes.ErrNoLeader) || isEtcd(err, rpctypes.ErrTooManyRequests) ||
		isEtcd(err, rpctypes.ErrAuthOldRevision) || isEtcd(err, rpctypes.ErrLeaseExist)
}

// mayPass says whether a call without effects, which ended with a translated error, may
// succeed in a moment: etcd is away, or was just changed in a way that it refuses for.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull) || worthRepeating(err)
}

// isEtcd says whether err is the given error of etcd, as the client or as gRPC shows it.
func isEtcd(err error, want error) bool {
	return errors.Is(err, want) || errors.Is(rpctypes.Error(err), want)
}

func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unknown
}
