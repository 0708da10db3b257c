package kubetest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/oscarfed/oscarfed/test/await"
)

// stopPatience is how long a program may take to end in order.
const stopPatience = await.Limit

// keptLog bounds what is kept of a program's log, in bytes: its end.
const keptLog = 64 << 10

// program is one process.
type program struct {
	name string
	cmd  *exec.Cmd
	log  tail
	// ended is closed when the process has gone.
	ended chan struct{}
}

// run starts a program.
func run(dir, name string, args ...string) (*program, error) {
	p := &program{name: name, ended: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(dir, name), args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go func() {
		// Linux ends the child when the thread that started it ends, and so this
		// thread stays until the child has gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // that it ended, and its log, tell enough
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop ends the program in order, or by force when it does not.
func (p *program) stop() error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-p.ended
		return nil //nolint:nilerr // it has ended by itself; whoever needed it has noticed
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
	}
	err := p.cmd.Process.Kill()
	<-p.ended
	return errors.Join(fmt.Errorf("%s did not stop within %s and was killed", p.name, stopPatience), err)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(data)
	if over := t.buf.Len() - 2*keptLog; over > 0 {
		t.buf.Next(t.buf.Len() - keptLog)
	}
	return len(data), nil
}

// String is the end of the log.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := t.buf.Bytes()
	return string(data[max(0, len(data)-keptLog):])
}
