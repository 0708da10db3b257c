package record

import "github.com/google/uuid"

// NewUID is a UUIDv7: unique, and in the order of time.
func NewUID() string { return uuid.Must(uuid.NewV7()).String() }
