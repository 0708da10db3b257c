package atomicfile_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

func TestALockExcludesOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func() error {
		unlock, err := atomicfile.Lock(t.Context(), path)
		if err != nil {
			return err
		}
		defer unlock()
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		return atomicfile.Write(path, []byte(strconv.Itoa(n+1)), 0o600)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := add(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	hold(t, path, "20")
}
