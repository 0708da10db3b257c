package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// maxWitness bounds the file in bytes.
const maxWitness = 64 << 10

// readWitness returns nil when there is no file, and an error for one that cannot be
// understood.
func readWitness(path string) (*witness, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxWitness+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	w := &witness{}
	if len(data) > maxWitness {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxWitness)
	}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// keep writes the witness in one step: a crash leaves the old file or the new one.
func (w *witness) keep(path string) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, 0o600)
}
