package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock excludes other processes that lock the same file, and other callers in this one, until unlock is called: what one
// of them has read of the file it replaces before another one reads. It waits for them until ctx ends. The lock is the
// kernel's (flock(2)), of a file beside it, which stays: a process that removed it would let two others in.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	locked := make(chan struct{})
	var failed error // set when locked is closed
	go func() {
		defer close(locked)
		for {
			if failed = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	}()
	release := func() { _ = file.Close() } // closing unlocks
	select {
	case <-locked:
		if failed != nil {
			release()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), failed)
		}
		return release, nil
	case <-ctx.Done():
		go func() {
			<-locked
			release()
		}()
		return nil, context.Cause(ctx)
	}
}
