package v1

import (
	"encoding/json"
	"fmt"
	"time"
)

// timeLayout is RFC 3339 with exactly three digits of milliseconds, in UTC.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is a moment as it goes over the wire: RFC 3339, milliseconds, UTC.
type Time struct{ time.Time }

// Moment is nil for nil.
func Moment(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return &Time{*t}
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler; it reads every form of RFC 3339.
func (t *Time) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("a time is a string: %w", err)
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return err
	}
	t.Time = v.UTC()
	return nil
}
