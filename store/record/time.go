package record

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is written as RFC 3339 with milliseconds in UTC.
type Time struct{ time.Time }

// TimeLayout is the wire form of Time.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// At rounds t to what a record can hold: milliseconds of the years 0 to 9999.
func At(t time.Time) Time {
	t = t.UTC().Truncate(time.Millisecond)
	switch year := t.Year(); {
	case year < 0:
		t = time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)
	case year > 9999:
		t = time.Date(9999, time.December, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC)
	}
	return Time{t}
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(TimeLayout) + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return err
	}
	v = v.UTC()
	if year := v.Year(); year < 0 || year > 9999 {
		// An offset moved it to a year that RFC 3339 cannot write.
		return fmt.Errorf("time %q is not between the years 0 and 9999 in UTC", s)
	}
	t.Time = v
	return nil
}
