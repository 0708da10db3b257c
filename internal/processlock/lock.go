package processlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// ErrHeld says that a process that runs holds the lock.
var ErrHeld = errors.New("another process holds it")

// Lock is held until Close, or the end of the process.
type Lock struct {
	file *os.File
	name string
}

// bootFile names the present run of the machine's kernel (random(4)).
const bootFile = "/proc/sys/kernel/random/boot_id"

// Take takes the lock of a file, which is made when it is missing. With ErrHeld it has another holder. The lock is the
// kernel's (flock(2)), and a file system over a network may not know it.
func Take(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	lock := &Lock{file: file}
	if err := lock.take(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return lock, nil
}

// maxContent bounds what is read of the file, in bytes.
const maxContent = 256

func (l *Lock) take() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return err
	}
	content := make([]byte, maxContent)
	n, err := l.file.ReadAt(content, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// The file may be a copy on another machine, or have come there: the name is good for this run of this kernel.
	now := strings.TrimSpace(string(boot))
	if run, name, ok := strings.Cut(strings.TrimSpace(string(content[:n])), " "); ok && run == now && uuid.Validate(name) == nil {
		l.name = name
		return nil
	}
	l.name = uuid.NewString()
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt([]byte(now+" "+l.name+"\n"), 0)
	return err
}

// Name is the same for all processes that held the lock on this machine since it was started, and on no other.
func (l *Lock) Name() string { return l.name }

// Close gives the lock free.
func (l *Lock) Close() error { return l.file.Close() }
