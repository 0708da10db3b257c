//go:build linux

package machines

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The descriptors that a program of a machine is started with.
const (
	spaceFD  = 3
	socketFD = 4
)

// enter takes this process to its machine, and has it begin anew there.
func enter() int {
	err := func() error {
		// What is set here is of this thread, which becomes the only one.
		runtime.LockOSThread()
		if err := unix.Setns(spaceFD, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the namespace: %w", err)
		}
		listener, err := listenToSyncs()
		if err != nil {
			return err
		}
		if err := unix.Sendmsg(socketFD, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
			return fmt.Errorf("hand over the listener: %w", err)
		}
		for _, fd := range []int{spaceFD, socketFD, listener} {
			_ = unix.Close(fd)
		}
		program, err := settle()
		if err != nil {
			return err
		}
		return syscall.Exec(program, os.Args, os.Environ())
	}()
	fmt.Fprintln(os.Stderr, "machines:", err)
	return 1
}

// settle goes to the root of the machine, and says which program is to run there.
func settle() (program string, err error) {
	program = "/proc/self/exe"
	if root := os.Getenv(rootVar); root != "" {
		program = os.Getenv(programVar)
		if err := unix.Chroot(root); err != nil {
			return "", fmt.Errorf("go to the root of the machine: %w", err)
		}
		if err := os.Chdir(Home); err != nil {
			return "", err
		}
	}
	for _, name := range []string{machineVar, rootVar, programVar} {
		if err := os.Unsetenv(name); err != nil {
			return "", err
		}
	}
	return program, os.Setenv(insideVar, onMachine)
}

// listenToSyncs has the kernel ask before each fsync and fdatasync of this thread, and of what it
// becomes: see seccomp_unotify(2).
func listenToSyncs() (listener int, err error) {
	const (
		load, equal, answer = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		allow, ask          = 0x7fff0000, 0x7fc00000 // SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF
	)
	program := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the system call
		{Code: equal, Jt: 2, K: unix.SYS_FDATASYNC},
		{Code: equal, Jt: 1, K: unix.SYS_FSYNC},
		{Code: answer, K: allow},
		{Code: answer, K: ask},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("no new privileges: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const setFilter, newListener = 1, 8 // SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, setFilter, newListener, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}

// notification and answer are struct seccomp_notif and seccomp_notif_resp of linux/seccomp.h.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	_     [64]byte // seccomp_data
}

type answer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// The requests of the listener, and the answer that lets the system call go on.
const (
	receive = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	send    = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	goOn    = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// hold lets each sync of a program go on after the disk's delay, until the program has ended.
func (m *Machine) hold(socket *os.File) {
	defer func() { _ = socket.Close() }()
	listener, err := receiveDescriptor(socket)
	if err != nil {
		return // it ended before it was here, and says why itself
	}
	defer func() { _ = unix.Close(listener) }()
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			if ready[0].Revents != 0 {
				return // all that it was about have ended
			}
			continue
		}
		var asked notification
		if control(listener, receive, unsafe.Pointer(&asked)) != 0 {
			continue // it was killed meanwhile
		}
		let := func() {
			reply := answer{id: asked.id, flags: goOn}
			control(listener, send, unsafe.Pointer(&reply))
		}
		if d := time.Duration(m.delay.Load()); d > 0 {
			time.AfterFunc(d, let)
			continue
		}
		let()
	}
}

func control(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}

func receiveDescriptor(socket *os.File) (int, error) {
	conn, err := net.FileConn(socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("it is no unix socket")
	}
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unixConn.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(messages) == 0 {
		return 0, errors.Join(errors.New("no descriptor came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return 0, errors.Join(errors.New("no descriptor came"), err)
	}
	return fds[0], nil
}
