package boot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// backedUp is an etcd with a control plane's records, and a backup of it.
func backedUp(t *testing.T) (st *store.Store, file string) {
	t.Helper()
	return backedUpFrom(t, embedded.Config{}, func(*store.Store) {})
}

// backedUpFrom is backedUp of an etcd of one's own, to which something is done before.
func backedUpFrom(t *testing.T, cfg embedded.Config, before func(*store.Store)) (st *store.Store, file string) {
	t.Helper()
	server := storetest.Start(t, cfg)
	st = storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.MetaKey, record.Meta{V: 1, Schema: 1, ControlPlane: "cp", Epoch: "first"})
		tx.Put(record.ClusterKey("c1"), record.Cluster{V: 1, ClusterID: "c1"})
		tx.Put(record.DesiredClusterKey("c1"), record.DesiredCluster{V: 1, ClusterID: "c1", Epoch: "first"})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	before(st)
	file = filepath.Join(t.TempDir(), "backup")
	var out, errs bytes.Buffer
	if status := BackupMain(t.Context(), []string{"--etcd-endpoints", server.Endpoint(), file}, nil, &out, &errs); status != exitDone {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(out.String(), "identity.age") {
		t.Errorf("%v %v: %s", info.Mode(), err, out.String())
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	return st, file
}

// A backup was of the first member alone: there were none while that was lost.
func TestABackupIsOfAMemberThatAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lost := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	server := storetest.Start(t, embedded.Config{})
	file := filepath.Join(t.TempDir(), "backup")
	var out, errs bytes.Buffer
	if status := BackupMain(t.Context(), []string{"--etcd-endpoints", lost + "," + server.Endpoint(), file}, nil, &out, &errs); status != exitDone {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if !strings.Contains(out.String(), " at "+server.Endpoint()+", revision ") {
		t.Errorf("it does not say of which member it is: %s", out.String())
	}
}

// A backup to /dev/full replaced the device, one to a link replaced the link, and - was a file.
func TestABackupReplacesRegularFilesAlone(t *testing.T) {
	server := storetest.Start(t, embedded.Config{})
	dir := t.TempDir()
	target, link, pipe := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(target, []byte("kept"), 0o600), os.Symlink(target, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{os.DevNull, link, pipe, dir} {
		before, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		status := BackupMain(t.Context(), []string{"--etcd-endpoints", server.Endpoint(), file}, nil, &out, &errs)
		if status == exitDone || !strings.Contains(errs.String(), "not a regular file") {
			t.Errorf("%s: status %d: %s", file, status, errs.String())
		}
		if after, err := os.Lstat(file); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s was %s, and is %v, %v", file, before.Mode(), after, err)
		}
	}
	t.Chdir(dir)
	var out, errs bytes.Buffer
	if status := BackupMain(t.Context(), []string{"--etcd-endpoints", server.Endpoint(), "-"}, nil, &out, &errs); status != exitDone {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if _, err := os.Lstat("-"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file -: %v", err)
	}
	copied := filepath.Join(dir, "copy")
	if err := os.WriteFile(copied, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RunRestore(t.Context(), Restore{File: copied, DataDir: t.TempDir()}, storetest.Logger(t), io.Discard); !errors.Is(err, gate.ErrNoStore) {
		t.Error(err)
	}
}

// A backup to the standard output that was killed left a file as large as the database.
func TestABackupToTheStandardOutputLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var out bytes.Buffer
	err := throughFile(&out, func(f *os.File) error {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("a process that is killed now leaves %v, %v", left, err)
		}
		_, err := f.WriteString("whole")
		return err
	})
	if err != nil || out.String() != "whole" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// machine is a control plane's data directory, as an embedded etcd with users leaves it.
func machine(t *testing.T, control string) (dir string, server *embedded.Server, st *store.Store) {
	t.Helper()
	dir = t.TempDir()
	e := embeddedEtcd{dataDir: dir, server: embedded.Config{ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true}, auth: true, log: storetest.Logger(t)}
	etcd, err := e.start(t.Context(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.close)
	if st, err = etcd.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	_, err = st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.MetaKey, record.Meta{V: 1, Schema: 1, ControlPlane: control, Epoch: "first"})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.LoadOrCreate(filepath.Join(dir, identityName)); err != nil {
		t.Fatal(err)
	}
	writeWitness(t, dir, control, 7)
	return dir, etcd.server, st
}

func writeWitness(t *testing.T, dir, control string, revision int) {
	t.Helper()
	text := fmt.Sprintf(`{"v":1,"control_plane":%q,"epoch":"first","revision":%d,"facts":[]}`, control, revision)
	if err := os.WriteFile(filepath.Join(dir, witnessName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sealedBackup is a backup of a machine, which runs on, and the file with the key that opens its keys.
func sealedBackup(t *testing.T) (dir, file, recoveryFile string) {
	t.Helper()
	dir, server, _ := machine(t, "cp")
	recoveryFile, file = filepath.Join(t.TempDir(), "recovery.age"), filepath.Join(t.TempDir(), "backup")
	recovery, err := seal.LoadOrCreate(recoveryFile)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	args := []string{"--etcd-endpoints", server.Endpoint(), "--data-dir", dir, "--recovery-recipient", recovery.Recipient(), file}
	if status := BackupMain(t.Context(), args, nil, &out, &errs); status != exitDone || !strings.Contains(out.String(), "Keys are in it") {
		t.Fatalf("status %d: %s%s", status, out.String(), errs.String())
	}
	return dir, file, recoveryFile
}

// Who restores would miss the key on the bad day: a backup whose keys are to be in it says at once that one
// is not there. A witness that cannot be read keeps nobody from restoring.
func TestWhatABackupLacksIsSaid(t *testing.T) {
	dir, server, _ := machine(t, "cp")
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	backup := Backup{File: filepath.Join(t.TempDir(), "backup"), DataDir: dir, Timeout: time.Minute}
	backup.Endpoints = []string{server.Endpoint()}
	if err := os.WriteFile(filepath.Join(dir, witnessName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := RunBackup(t.Context(), backup, storetest.Logger(t), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), " at "+server.Endpoint()+", revision ") {
		t.Errorf("it does not say of which etcd it is: %s", out.String())
	}
	out.Reset()
	restored := t.TempDir()
	if err := RunRestore(t.Context(), Restore{File: backup.File, DataDir: restored}, storetest.Logger(t), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The witness is left out", "authority of etcd's users is not here", "There is no identity.age"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q: %s", want, out.String())
		}
	}
	backup.Recipients = []string{id.Recipient()}
	if err := os.Remove(filepath.Join(dir, identityName)); err != nil {
		t.Fatal(err)
	}
	if err := RunBackup(t.Context(), backup, storetest.Logger(t), io.Discard); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--identity-file") {
		t.Errorf("without the control plane's key: %v", err)
	}
}

// Without the directory it took what listened on the port of an embedded etcd, whosever that was.
func TestABackupOfNothingIsRefused(t *testing.T) {
	backup := Backup{File: filepath.Join(t.TempDir(), "backup"), DataDir: filepath.Join(t.TempDir(), "nowhere"), Timeout: time.Minute}
	err := RunBackup(t.Context(), backup, storetest.Logger(t), io.Discard)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), "--data-dir, or --etcd-endpoints") {
		t.Errorf("a backup of a control plane that is not here: %v", err)
	}
}

// So does a backup with what one has left that was killed. It leaves what another one writes, and files of others.
func TestAKilledBackupLeavesNothingForEver(t *testing.T) {
	server := storetest.Start(t, embedded.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	killed, err := atomicfile.New(file)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := atomicfile.New(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(killed.Close(), runs.Discard()) })
	others := []string{".backup-notes", ".backup-", ".other-123", "backup-123"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range append(others, filepath.Base(killed.Name())) {
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	if status := BackupMain(t.Context(), []string{"--etcd-endpoints", server.Endpoint(), file}, nil, &out, &errs); status != exitDone {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if _, err := os.Stat(killed.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", killed.Name(), err)
	}
	for _, name := range append(others, filepath.Base(runs.Name())) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
