package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// Its Job had succeeded, and the control plane was started on what was there before.
func TestAnInterruptedRestoreHasFailed(t *testing.T) {
	_, file := backedUp(t)
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errs bytes.Buffer
	if status := RestoreMain(ctx, []string{file, "--data-dir", dir}, nil, &out, &errs); status != exitFailed || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("status %d: %s", status, errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd", "member")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a database: %v", err)
	}
}

// The machine is gone with all that it held: one file, and the key of who restores, bring back the
// database, the authority that syncers trust, the control plane's key, and what was seen.
func TestAnEmptyMachineIsRestoredFromOneFile(t *testing.T) {
	lost, file, recoveryFile := sealedBackup(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"AGE-SECRET-KEY", "PRIVATE KEY"} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the backup holds %q in the clear", secret)
		}
	}
	kept := []string{identityName, filepath.Join("pki", "ca.crt"), filepath.Join("pki", "ca.key"), witnessName}
	for range 2 { // a restore is repeated
		dir := t.TempDir()
		var out, errs bytes.Buffer
		for range 2 {
			out.Reset()
			args := []string{file, "--data-dir", dir, "--recovery-identity-file", recoveryFile, "--replace"}
			if status := RestoreMain(t.Context(), args, nil, &out, &errs); status != exitDone {
				t.Fatalf("status %d: %s", status, errs.String())
			}
		}
		if !strings.Contains(out.String(), "etcd.before-") {
			t.Errorf("it does not say where the database is that was there: %s", out.String())
		}
		for _, name := range kept {
			was, err := os.ReadFile(filepath.Join(lost, name))
			is, err2 := os.ReadFile(filepath.Join(dir, name))
			if err := errors.Join(err, err2); err != nil || !bytes.Equal(was, is) {
				t.Errorf("%s: %v; it was %d bytes, and is %d", name, err, len(was), len(is))
			}
		}
		if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) > 0 {
			t.Errorf("left behind: %v %v", names, err)
		}
	}
}

// What a data directory knows better than a backup stays: a newer witness, other keys.
func TestARestoreKeepsWhatIsNewer(t *testing.T) {
	lost, file, recoveryFile := sealedBackup(t)
	for revision, want := range map[int]string{6: `"revision":7`, 8: `"revision":8`} {
		dir, server, st := machine(t, "cp")
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		server.Close()
		writeWitness(t, dir, "cp", revision)
		before, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = RunRestore(t.Context(), Restore{File: file, DataDir: dir, RecoveryIdentity: recoveryFile, Replace: true}, storetest.Logger(t), &out)
		if err != nil || !strings.Contains(out.String(), "another one than when the backup was made") {
			t.Errorf("%v: %s", err, out.String())
		}
		if after, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt")); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the authority was replaced: %v", err)
		}
		if witness, err := os.ReadFile(filepath.Join(dir, witnessName)); err != nil || !bytes.Contains(witness, []byte(want)) {
			t.Errorf("the witness is %s, %v", witness, err)
		}
	}
	if err := RunRestore(t.Context(), Restore{File: file, DataDir: lost, RecoveryIdentity: recoveryFile, Replace: true}, storetest.Logger(t), io.Discard); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("a restore beside a control plane: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other.age")
	if _, err := seal.LoadOrCreate(other); err != nil {
		t.Fatal(err)
	}
	err := RunRestore(t.Context(), Restore{File: file, DataDir: t.TempDir(), RecoveryIdentity: other}, storetest.Logger(t), io.Discard)
	if !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("with another key: %v", err)
	}
}

// A control plane that was started on what was restored without its key made another one. It did not start with that, and
// each restore with the right key left it there, and said nothing.
func TestARestoreWithoutTheKeyIsDoneAgain(t *testing.T) {
	lost, file, recoveryFile := sealedBackup(t)
	dir := t.TempDir()
	if err := RunRestore(t.Context(), Restore{File: file, DataDir: dir}, storetest.Logger(t), io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := controlPlaneIdentity(ControlPlane{DataDir: dir}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--recovery-identity-file") {
		t.Errorf("a control plane without the key: %v", err)
	}
	again := Restore{File: file, DataDir: dir, RecoveryIdentity: recoveryFile, Replace: true}
	var out bytes.Buffer
	if err := RunRestore(t.Context(), again, storetest.Logger(t), &out); err != nil || strings.Contains(out.String(), "another key") {
		t.Fatalf("%v: %s", err, out.String())
	}
	was, err := os.ReadFile(filepath.Join(lost, identityName))
	is, err2 := os.ReadFile(filepath.Join(dir, identityName))
	if err := errors.Join(err, err2); err != nil || !bytes.Equal(was, is) {
		t.Errorf("the key is not that of the backup: %v", err)
	}
	// One that is there for another reason.
	other := filepath.Join(dir, identityName)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.LoadOrCreate(other); err != nil {
		t.Fatal(err)
	}
	if err := RunRestore(t.Context(), again, storetest.Logger(t), &out); err != nil || !strings.Contains(out.String(), "identity.age is another key than the one in the backup") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func restored(t *testing.T, args ...string) (*store.Store, string) {
	t.Helper()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	if status := RestoreMain(t.Context(), append(args, "--data-dir", dir), nil, &out, &errs); status != exitDone {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".restore-*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v %v", names, err)
	}
	server := storetest.Start(t, embedded.Config{Dir: filepath.Join(dir, "etcd")})
	return storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}}), dir
}

func read[T any](t *testing.T, st *store.Store, key string) (*T, store.KV) {
	t.Helper()
	kv, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	v, err := store.Decode[T](kv)
	if err != nil {
		t.Fatal(err)
	}
	return v, kv
}

func TestARestoredBackupHasANewEpoch(t *testing.T) {
	before, file := backedUp(t)
	was, err := before.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, bump := range []bool{true, false} {
		args := []string{file}
		if !bump {
			args = append(args, "--no-bump")
		}
		st, dir := restored(t, args...)
		meta, kv := read[record.Meta](t, st, record.MetaKey)
		if meta.ControlPlane != "cp" || meta.Epoch == "first" || meta.RestoredAt == nil || len(meta.Epochs) != 1 || meta.Epochs[0] != "first" {
			t.Errorf("bump %v: %+v", bump, meta)
		}
		if c, _ := read[record.DesiredCluster](t, st, record.DesiredClusterKey("c1")); c.Epoch != meta.Epoch || c.Word() != meta.Epoch {
			t.Errorf("bump %v: the cluster was told %+v", bump, c)
		}
		if higher := kv.ModRevision > was.Revision+1_000_000; higher != bump {
			t.Errorf("bump %v: revision %d follows %d", bump, kv.ModRevision, was.Revision)
		}
		_, err := embedded.Restore(embedded.RestoreConfig{Backup: file, Dir: filepath.Join(dir, "etcd")})
		if !errors.Is(err, embedded.ErrInUse) {
			t.Errorf("a running etcd was restored over: %v", err)
		}
	}
}

// Whatever a restore has made beside the database when it is killed, the next one removes it.
func TestAKilledRestoreLeavesNothingForEver(t *testing.T) {
	_, file := backedUp(t)
	killed, next := t.TempDir(), t.TempDir()
	restore := func(dir string, then func() error) []os.DirEntry {
		t.Helper()
		cfg := embedded.RestoreConfig{Backup: file, Dir: filepath.Join(dir, "etcd"), Logger: storetest.Logger(t)}
		if _, _, err := restoreEtcd(t.Context(), cfg, "", then); err != nil {
			t.Fatal(err)
		}
		there, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	left := 0
	restore(killed, func() error {
		there, err := os.ReadDir(killed)
		for _, one := range there {
			if one.Name() != "etcd" {
				left++
				err = errors.Join(err, os.MkdirAll(filepath.Join(next, one.Name(), "with", "data"), 0o700))
			}
		}
		return err
	})
	if left == 0 {
		t.Fatal("it works in no folder of its own")
	}
	if there := restore(next, func() error { return nil }); len(there) != 1 || there[0].Name() != "etcd" {
		t.Errorf("beside the database are %v", there)
	}
}

// TestAStoreThatWasFullIsRestored, which one does to give it a larger quota: the alarm
// is in the backup.
func TestAStoreThatWasFullIsRestored(t *testing.T) {
	n := 0
	fill := func(st *store.Store) error {
		n++
		_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.PutBytes(record.AuditKey(fmt.Sprint(n)), bytes.Repeat([]byte("x"), 512<<10))
			return nil
		}})
		return err
	}
	_, file := backedUpFrom(t, embedded.Config{Quota: 4 << 20}, func(st *store.Store) {
		var err error
		for err == nil && n < 100 {
			err = fill(st)
		}
		if !errors.Is(err, store.ErrFull) {
			t.Fatalf("filling ended with %v", err)
		}
	})
	st, _ := restored(t, file)
	if meta, _ := read[record.Meta](t, st, record.MetaKey); meta.Epoch == "first" {
		t.Error("it has no new epoch")
	}
	if err := fill(st); err != nil {
		t.Errorf("with a quota that is large enough: %v", err)
	}
}

func TestARestoreNeverOverwrites(t *testing.T) {
	_, file := backedUp(t)
	dir := filepath.Join(t.TempDir(), "etcd")
	storetest.Start(t, embedded.Config{Dir: dir}).Close()
	if _, err := embedded.Restore(embedded.RestoreConfig{Backup: file, Dir: dir}); !errors.Is(err, embedded.ErrNotEmpty) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "member")); err != nil {
		t.Error(err)
	}
}

func TestADamagedBackupIsRefused(t *testing.T) {
	_, file := backedUp(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(data)/2] ^= 1
	for name, bad := range map[string][]byte{"cut": data[:len(data)-2000], "short": data[:20], "empty": nil, "changed": flipped, "other": bytes.Repeat([]byte("x"), 4096)} {
		path, dir := filepath.Join(t.TempDir(), "bad"), t.TempDir()
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if status := RestoreMain(t.Context(), []string{path, "--data-dir", dir}, nil, io.Discard, io.Discard); status != exitFailed {
			t.Errorf("%s: status %d", name, status)
		}
		if _, err := os.Stat(filepath.Join(dir, "etcd", "member")); err == nil {
			t.Errorf("%s: something was restored", name)
		}
	}
}

// TestWhatIsNoStoreIsNotRestored: a backup of some other etcd.
func TestWhatIsNoStoreIsNotRestored(t *testing.T) {
	server := storetest.Start(t, embedded.Config{})
	st := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	file, dir := filepath.Join(t.TempDir(), "b"), t.TempDir()
	if err := storetest.Snapshot(t.Context(), st, file); err != nil {
		t.Fatal(err)
	}
	err := RunRestore(t.Context(), Restore{File: file, DataDir: dir}, storetest.Logger(t), io.Discard)
	if !errors.Is(err, gate.ErrNoStore) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd", "member")); err == nil {
		t.Error("it was restored all the same")
	}
}
