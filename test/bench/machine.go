package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// raiseFileLimit allows this process, and those that it starts, as many open
// files as the system lets it: each connected syncer has two connections.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}

// machine says what the figures were measured on.
func (r *report) machine() {
	r.linef("- machine: %s, %d CPUs, %s of memory, Linux %s, %s", field("/proc/cpuinfo", "model name"), runtime.NumCPU(),
		memory(), firstWords("/proc/sys/kernel/osrelease", 1), runtime.Version())
	if disk, err := diskFloor(); err == nil {
		r.linef("- disk: write of 2 KiB and fdatasync: %s p50, %s p99", ms(disk.p(50)), ms(disk.p(99)))
	}
	r.load("at the start")
}

func (r *report) load(when string) {
	r.linef("- load average %s: %s (1, 5, 15 minutes)", when, firstWords("/proc/loadavg", 3))
}

func field(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memory() string {
	kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"))
	if err != nil {
		return "unknown size"
	}
	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}

func firstWords(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(data))
	return strings.Join(words[:min(n, len(words))], " ")
}

// diskFloor times what one small transaction costs the disk under etcd.
func diskFloor() (samples, error) {
	dir, err := os.MkdirTemp("", "oscarfed-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 2<<10)
	var took samples
	for range 200 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// usage is what a process holds and has used.
type usage struct {
	// anon is memory of its own; resident counts mapped files too, etcd's database
	// among them. Bytes.
	anon, resident int64
	cpu            time.Duration
	at             time.Time
}

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

func usageOf(pid int) (usage, error) {
	u := usage{at: time.Now()}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	for name, to := range map[string]*int64{"RssAnon": &u.anon, "VmRSS": &u.resident} {
		kib, err := strconv.ParseInt(strings.TrimSuffix(field(filepath.Join(dir, "status"), name), " kB"), 10, 64)
		if err != nil {
			return u, fmt.Errorf("memory of process %d: %w", pid, err)
		}
		*to = kib << 10
	}
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, err
	}
	// The name in parentheses may hold anything; user and system time are the 12th
	// and 13th field after it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	for _, ticks := range fields[11:13] {
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(n) * time.Second / ticksPerSecond
	}
	return u, nil
}

// share is the part of one CPU that was used since before.
func (u usage) share(before usage) float64 {
	return (u.cpu - before.cpu).Seconds() / u.at.Sub(before.at).Seconds()
}
