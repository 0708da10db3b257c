//go:build linux

package machines_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/machines"
)

// programVar makes the test binary the program of a machine: it answers each line with the same line, after it
// has written it to the file of that name and synced it.
const programVar = "MACHINES_TEST_FILE"

func TestMain(m *testing.M) {
	os.Exit(machines.Main(func() int {
		if file := os.Getenv(programVar); file != "" {
			fmt.Fprintln(os.Stderr, program(os.Args[1], file))
			return 1
		}
		return m.Run()
	}))
}

func program(address, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			lines := bufio.NewReader(conn)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if _, err := f.WriteString(line); err != nil {
					line = err.Error() + "\n"
				} else if err := f.Sync(); err != nil {
					line = err.Error() + "\n"
				}
				if _, err := io.WriteString(conn, line); err != nil {
					return
				}
			}
		}()
	}
}

// start runs the program on a machine, and connects to it.
func start(t *testing.T, m *machines.Machine) (ask func(within time.Duration) (string, error)) {
	t.Helper()
	address := m.Address() + ":7000"
	cmd := exec.Command("/proc/self/exe", address)
	cmd.Env = append(os.Environ(), programVar+"="+filepath.Join(m.Disk(), "lines"))
	cmd.Stderr = os.Stderr
	started, err := m.Take(cmd)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	started()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var conn net.Conn
	await.Until(t, "the program listens", func() bool {
		conn, err = net.DialTimeout("tcp", address, time.Second)
		return err == nil
	})
	t.Cleanup(func() { _ = conn.Close() })
	lines := bufio.NewReader(conn)
	return func(within time.Duration) (string, error) {
		if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
			return "", err
		}
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			return "", err
		}
		return lines.ReadString('\n')
	}
}

func answers(t *testing.T, ask func(time.Duration) (string, error)) {
	t.Helper()
	if line, err := ask(await.Limit); err != nil || line != "hello\n" {
		t.Fatalf("it answers %q, %v", line, err)
	}
}

// A machine that is cut off one way answers again, on the same connection, when that is mended.
func TestAMachineIsCutOffOneWay(t *testing.T) {
	for name, cut := range map[string]func(*machines.Machine){"nobody hears it": (*machines.Machine).Mute, "it hears nobody": (*machines.Machine).Deafen} {
		t.Run(name, func(t *testing.T) {
			network := machines.NewNetwork(t)
			m, other := network.Machine(1<<20), network.Machine(1<<20)
			ask, askOther := start(t, m), start(t, other)
			answers(t, ask)
			cut(m)
			if line, err := ask(300 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("cut off, it answers %q, %v", line, err)
			}
			answers(t, askOther)
			m.Mend()
			// The line that was lost comes after all, and its answer.
			answers(t, ask)
		})
	}
}

func TestADiskIsFull(t *testing.T) {
	m := machines.NewNetwork(t).Machine(1 << 20)
	ask := start(t, m)
	answers(t, ask)
	m.Fill()
	full := false
	for range 4096 / len("hello\n") * 2 { // what is left of its page still fits
		line, err := ask(await.Limit)
		if err != nil {
			t.Fatal(err)
		}
		if full = strings.Contains(line, unix.ENOSPC.Error()); full {
			break
		}
	}
	if !full {
		t.Error("everything fits")
	}
	m.Empty()
	answers(t, ask)
}

// A slow disk holds up who syncs, for as long as it is said, and lets go when it is not slow any more.
func TestADiskIsSlow(t *testing.T) {
	m := machines.NewNetwork(t).Machine(1 << 20)
	ask := start(t, m)
	const slow = 300 * time.Millisecond
	m.Slow(slow)
	began := time.Now()
	answers(t, ask)
	if took := time.Since(began); took < slow {
		t.Errorf("a sync took %s, not %s", took, slow)
	}
	m.Slow(0)
	answers(t, ask)
}

// A machine with a root has files of its own beside the programs of this machine, which it cannot change.
func TestAMachineHasARootOfItsOwn(t *testing.T) {
	m := machines.NewNetwork(t).Machine(1 << 20)
	m.Root("called-so")
	cmd := exec.Command("/bin/sh", "-c", `pwd; ls /etc; echo mine >/etc/mine; ls /opt/bin; touch /usr/mine`)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	started, err := m.Take(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Start()
	started()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if want := "/root\ncalled-so\ntouch: cannot touch '/usr/mine': Read-only file system\n"; err == nil || out.String() != want {
		t.Errorf("%v, it prints\n%s", err, out.String())
	}
	if data, err := os.ReadFile(filepath.Join(m.Disk(), "etc/mine")); err != nil || string(data) != "mine\n" {
		t.Errorf("its file: %q, %v", data, err)
	}
}
