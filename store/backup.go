package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Backup says what a backup holds.
type Backup struct {
	// Bytes is the size of the copy.
	Bytes int64
	// Revision is the newest that the backup holds, or an older one: it is what the
	// member was at when the backup began.
	Revision int64
	// Version is the release of the member that made it.
	Version string
}

// errNoSnapshot says what a file is whose hash is wrong.
var errNoSnapshot = errors.New("the database is damaged, or is none: the hash at its end is not that of its bytes")

// errDamaged says that a backup's hash is not that of its bytes.
var errDamaged = errors.New("the hash at its end is not that of what was received")

// Backup writes everything that one etcd member holds, all users' keys included, to w: a
// consistent copy of the database with its SHA-256 at the end, as etcdctl and etcdutl write and
// read it. After an error what was written is worthless. It takes as long as ctx allows, and
// writes nothing to etcd.
func (s *Store) Backup(ctx context.Context, w io.Writer) (b Backup, err error) {
	view, err := s.Read(ctx)
	if err != nil {
		return b, err
	}
	b.Revision = view.Revision
	resp, err := s.client.SnapshotWithVersion(clientv3.WithRequireLeader(ctx))
	if err != nil {
		return b, fmt.Errorf("backup: %w", translate(err))
	}
	defer resp.Snapshot.Close()
	hash := &trailing{hash: sha256.New()}
	if b.Bytes, err = io.Copy(io.MultiWriter(w, hash), resp.Snapshot); err != nil {
		return b, fmt.Errorf("backup: %w", translate(err))
	}
	if !hash.right() {
		return b, fmt.Errorf("backup of %d bytes: %w; try again", b.Bytes, errDamaged)
	}
	b.Version = resp.Version
	return b, nil
}

// trailing hashes all that is written to it but for the last 32 bytes, which are
// to be that hash.
type trailing struct {
	hash hash.Hash
	last []byte
	size int64
}

func (t *trailing) Write(p []byte) (int, error) {
	t.size += int64(len(p))
	t.last = append(t.last, p...)
	if over := len(t.last) - sha256.Size; over > 0 {
		_, _ = t.hash.Write(t.last[:over]) // a hash takes everything
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(p), nil
}

func (t *trailing) right() bool {
	return t.size > sha256.Size && bytes.Equal(t.hash.Sum(nil), t.last)
}

// CheckBackup reads what Backup or etcdctl wrote to its end, and says whether its hash is right.
func CheckBackup(r io.Reader) error {
	hash := &trailing{hash: sha256.New()}
	if _, err := io.Copy(hash, r); err != nil {
		return err
	}
	if !hash.right() {
		return errNoSnapshot
	}
	return nil
}
