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
	w, err := parseWitness(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

func parseWitness(data []byte) (*witness, error) {
	if len(data) > maxWitness {
		return nil, fmt.Errorf("it is larger than %d bytes", maxWitness)
	}
	w := &witness{}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, err
	}
	return w, nil
}

// RestoreWitness puts the witness of a backup into a data directory. One that has seen as much of the
// same history, or has seen another history, stays: it knows of what the backup has lost. One that
// cannot be read goes.
func RestoreWitness(path string, data []byte) error {
	from, err := parseWitness(data)
	if err != nil {
		return fmt.Errorf("the backup's witness: %w", err)
	}
	there, err := readWitness(path)
	if err == nil && there != nil && there.ControlPlane == from.ControlPlane && (there.Epoch != from.Epoch || there.Revision >= from.Revision) {
		return nil
	}
	return from.keep(path)
}

// keep writes the witness in one step: a crash leaves the old file or the new one.
func (w *witness) keep(path string) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, 0o600)
}
