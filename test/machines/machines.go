//go:build linux

// Package machines gives programs of a test machines of their own: a network namespace with one
// address, and a disk in memory, which may be the root of its file system. Others hear a machine no more,
// or it hears nobody; its disk is full, or slow.
//
// All of it is in namespaces of the test's process, which Main makes, and is gone with that process.
package machines

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// insideVar says that the tests run in namespaces of their own; refusedVar why they do not.
	insideVar, refusedVar = "OSCARFED_TEST_NAMESPACES", "OSCARFED_TEST_NO_NAMESPACES"
	// machineVar makes a process go to a machine before it is what it shall be. programVar is the program that it
	// becomes below rootVar, the machine's root; without one it is what it was.
	machineVar = "OSCARFED_TEST_MACHINE"
	rootVar    = "OSCARFED_TEST_MACHINE_ROOT"
	programVar = "OSCARFED_TEST_MACHINE_PROGRAM"
	// onMachine is the value of insideVar for programs of machines, whose namespaces are ready.
	onMachine = "machine"
	// exitRefused is the status of a process that may do nothing in its namespaces.
	exitRefused = 77
)

// Main runs the tests in namespaces of their own: run is what TestMain does otherwise. A process that
// is to run on a machine goes there. Where the kernel refuses namespaces, the tests run without, and
// Needed skips those that need them.
func Main(run func() int) int {
	if os.Getenv(machineVar) != "" {
		return enter()
	}
	if os.Getenv(insideVar) == onMachine {
		return run()
	}
	if os.Getenv(insideVar) != "" {
		if err := private(); err != nil {
			fmt.Fprintln(os.Stderr, "machines:", err)
			return exitRefused
		}
		return run()
	}
	if os.Getenv(refusedVar) != "" {
		return run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideVar+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	// The child is killed when the thread ends that started it.
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		_ = os.Setenv(refusedVar, err.Error())
		return run()
	}
	// go test ends a test that takes too long by SIGQUIT, so that it shows its goroutines.
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range quit {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() == exitRefused {
		_ = os.Setenv(refusedVar, "it lets nobody change mounts")
		return run()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "machines:", err)
		return 1
	}
	return 0
}

// private makes the mounts of this process its own, and its loopback work.
func private() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("the loopback: %w", err)
	}
	return nil
}

// Needed skips a test where there are no namespaces.
func Needed(t testing.TB) {
	t.Helper()
	if os.Getenv(insideVar) == "" {
		t.Skip("this machine refuses namespaces: " + os.Getenv(refusedVar))
	}
}

// Network is a switch with machines. The test itself is on it, too.
type Network struct {
	t        testing.TB
	bridge   *netlink.Bridge
	machines []*Machine
}

// The addresses are 10.77.0.1 for the test, and then one after the other. nowhere is the hardware
// address of nobody.
const (
	prefix = "10.77.0."
	own    = 1
)

var nowhere = net.HardwareAddr{0x02, 0, 0, 0, 0, 1}

// NewNetwork makes a network for the time of a test, one at a time.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	Needed(t)
	n := &Network{t: t, bridge: &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "machines"}}}
	n.must("make a switch", netlink.LinkAdd(n.bridge))
	t.Cleanup(func() {
		if err := netlink.LinkDel(n.bridge); err != nil {
			t.Error(err)
		}
	})
	n.must("give the test an address", netlink.AddrAdd(n.bridge, address(own)))
	n.must("start the switch", netlink.LinkSetUp(n.bridge))
	return n
}

func (n *Network) must(what string, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", what, err)
	}
}

func address(k int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip(k), Mask: net.CIDRMask(24, 32)}}
}

// Address is the test's own, without a port.
func (n *Network) Address() string { return ip(own).String() }

func ip(k int) net.IP { return net.ParseIP(fmt.Sprintf("%s%d", prefix, k)) }

// Machine is where a program runs. Its methods are for one goroutine.
type Machine struct {
	t   testing.TB
	net *Network
	// number is that of its address.
	number int
	space  *os.File
	// handle changes its network, link is its interface.
	handle *netlink.Handle
	link   int
	disk   string
	// root says that the disk is the root of the file system of its programs.
	root bool
	// delay is how long a write to the disk takes to be safe, in nanoseconds.
	delay atomic.Int64
}

// Machine adds a machine whose disk has so many bytes.
func (n *Network) Machine(diskBytes int64) *Machine {
	n.t.Helper()
	m := &Machine{t: n.t, net: n, number: own + 1 + len(n.machines), disk: filepath.Join(n.t.TempDir(), "disk")}
	n.must("make the disk's folder", os.Mkdir(m.disk, 0o700))
	n.must("mount the disk", unix.Mount("machine", m.disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)))
	n.t.Cleanup(func() {
		if err := unix.Unmount(m.disk, unix.MNT_DETACH); err != nil {
			n.t.Error(err)
		}
	})
	space := n.namespace()
	m.space = os.NewFile(uintptr(space), "namespace")
	n.t.Cleanup(func() { _ = m.space.Close() })
	inside, outside := fmt.Sprintf("in%d", m.number), fmt.Sprintf("out%d", m.number)
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: outside, MasterIndex: n.bridge.Index}, PeerName: inside, PeerNamespace: netlink.NsFd(space)}
	n.must("make a cable", netlink.LinkAdd(pair))
	n.t.Cleanup(func() {
		if err := netlink.LinkDel(pair); err != nil {
			n.t.Error(err)
		}
	})
	n.must("plug the cable in", netlink.LinkSetUp(pair))
	var err error
	m.handle, err = netlink.NewHandleAt(space)
	n.must("open the namespace", err)
	n.t.Cleanup(m.handle.Close)
	for _, name := range []string{"lo", inside} {
		link, err := m.handle.LinkByName(name)
		n.must("find "+name, err)
		n.must("start "+name, m.handle.LinkSetUp(link))
		if name == inside {
			m.link = link.Attrs().Index
			n.must("give an address", m.handle.AddrAdd(link, address(m.number)))
		}
	}
	n.machines = append(n.machines, m)
	return m
}

// namespace makes a network namespace, and leaves this goroutine's thread in its own.
func (n *Network) namespace() netns.NsHandle {
	n.t.Helper()
	type made struct {
		space netns.NsHandle
		err   error
	}
	result := make(chan made)
	go func() {
		// The thread ends with the goroutine: it is never unlocked.
		runtime.LockOSThread()
		space, err := netns.New()
		result <- made{space, err}
	}()
	out := <-result
	n.must("make a namespace", out.err)
	return out.space
}

// Address is the machine's, without a port.
func (m *Machine) Address() string { return ip(m.number).String() }

// Disk is the folder that its disk is mounted at.
func (m *Machine) Disk() string { return m.disk }

// Mute has nobody hear the machine any more, while it hears all. Nobody is told.
func (m *Machine) Mute() {
	m.t.Helper()
	for _, other := range m.others() {
		m.net.must("mute a machine", m.handle.NeighSet(lost(m.link, other)))
	}
}

// Deafen has the machine hear nobody any more, while all hear it.
func (m *Machine) Deafen() {
	m.t.Helper()
	m.net.must("deafen a machine", netlink.NeighSet(lost(m.net.bridge.Index, m.number)))
	for _, other := range m.net.machines {
		if other != m {
			m.net.must("deafen a machine", other.handle.NeighSet(lost(other.link, m.number)))
		}
	}
}

// Mend undoes Mute and Deafen.
func (m *Machine) Mend() {
	m.t.Helper()
	gone := func(err error) error {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	for _, other := range m.others() {
		m.net.must("mend a machine", gone(m.handle.NeighDel(lost(m.link, other))))
	}
	m.net.must("mend a machine", gone(netlink.NeighDel(lost(m.net.bridge.Index, m.number))))
	for _, other := range m.net.machines {
		if other != m {
			m.net.must("mend a machine", gone(other.handle.NeighDel(lost(other.link, m.number))))
		}
	}
}

// others are the numbers of the test and of all other machines.
func (m *Machine) others() []int {
	out := []int{own}
	for _, other := range m.net.machines {
		if other != m {
			out = append(out, other.number)
		}
	}
	return out
}

// lost is an entry by which what is sent to an address reaches nobody.
func lost(link, number int) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: link, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: ip(number), HardwareAddr: nowhere}
}

// ballast is the file that fills a disk.
const ballast = "ballast"

// Fill takes what is free of the disk; Empty gives it back.
func (m *Machine) Fill() {
	m.t.Helper()
	f, err := os.Create(filepath.Join(m.disk, ballast))
	m.net.must("fill the disk", err)
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		n, err := f.Write(block)
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			m.t.Fatalf("fill the disk: %v", err)
		}
		if err != nil && n == 0 {
			block = block[:len(block)/2]
		}
	}
}

// Empty undoes Fill.
func (m *Machine) Empty() {
	m.t.Helper()
	m.net.must("empty the disk", os.Remove(filepath.Join(m.disk, ballast)))
}

// Slow makes each write to the disk take so long to be safe: fsync and fdatasync of the programs that
// run here. 0 is as it was.
func (m *Machine) Slow(d time.Duration) { m.delay.Store(int64(d)) }

// Take has a program run on the machine when it is started. started is called after that.
func (m *Machine) Take(cmd *exec.Cmd) (started func(), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	cmd.ExtraFiles = []*os.File{m.space, theirs}
	cmd.Env = append(cmd.Env, machineVar+"=yes")
	if m.root {
		cmd.Env = append(cmd.Env, rootVar+"="+m.disk, programVar+"="+cmd.Path)
		cmd.Path = "/proc/self/exe"
	}
	return func() {
		_ = theirs.Close()
		go m.hold(ours)
	}, nil
}
