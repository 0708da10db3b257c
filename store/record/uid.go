package record

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// NewUID is a UUIDv7: unique, and in the order of time.
func NewUID() string { return uuid.Must(uuid.NewV7()).String() }

// IsUID says whether text is a UUID of any version, as UUIDs are written here.
func IsUID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}

// FirstUID is not greater than any UUIDv7 that is made at a time or later, and greater than those
// that are made in an earlier millisecond. It is no UUID itself: of RFC 9562 5.7 it has the 48 bits
// that are the milliseconds since 1970.
func FirstUID(at time.Time) string {
	const bits = 48
	ms := min(max(at.UnixMilli(), 0), 1<<bits-1)
	return fmt.Sprintf("%08x-%04x-", ms>>16, ms&0xffff)
}
