package record

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Meta is written when a control plane first meets an empty store, and when the
// store was restored.
type Meta struct {
	V            int    `json:"v"`
	Schema       int    `json:"schema"`
	ControlPlane string `json:"control_plane"`
	Epoch        string `json:"epoch"`
	// Recipient is that of the identity which all instances share.
	Recipient string `json:"recipient"`
	CreatedAt Time   `json:"created_at"`
	// RestoredAt is when the present epoch began; nil in the first one.
	RestoredAt *Time `json:"restored_at,omitempty"`
	// Epochs are the former ones, oldest first.
	Epochs []string `json:"epochs,omitempty"`
	// Minimum is what an instance must read and write. A form that it does not ask for is not
	// written yet: the version before may come back.
	Minimum
}

// Encode writes a record as one line of compact JSON without HTML escapes.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
