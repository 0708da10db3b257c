package embedded_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// A backup of a server with a larger quota than the default one may be larger than that.
func TestABackupLargerThanTheDefaultQuotaIsPrepared(t *testing.T) {
	server, _ := start(t, embedded.Config{})
	st := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	file := filepath.Join(t.TempDir(), "backup")
	if err := storetest.Snapshot(t.Context(), st, file); err != nil {
		t.Fatal(err)
	}
	var quota int64
	_, err := embedded.Restore(embedded.RestoreConfig{
		Backup: file, Dir: filepath.Join(t.TempDir(), "etcd"),
		Prepare: func(endpoint string) error {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
			if err != nil {
				return err
			}
			status, err := client.Status(t.Context(), endpoint)
			if err == nil {
				quota = status.DbSizeQuota
			}
			return errors.Join(err, client.Close())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if quota >= 0 {
		t.Errorf("what was restored may have %d bytes", quota)
	}
}

// A backup that is a snapshot and nothing else is restored without a copy of it, which could be as large as the database.
func TestABareSnapshotIsNotCopiedTwice(t *testing.T) {
	server, _ := start(t, embedded.Config{})
	st := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	file := filepath.Join(t.TempDir(), "backup")
	if err := storetest.Snapshot(t.Context(), st, file); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	_, err = embedded.Restore(embedded.RestoreConfig{
		Backup: file, Dir: filepath.Join(parent, "etcd"),
		Prepare: func(string) error {
			return filepath.WalkDir(parent, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.Name() == "snapshot" {
					t.Errorf("%s is there", path)
				}
				return err
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the backup is another one now: %v", err)
	}
}
