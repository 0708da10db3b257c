package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap/zapcore"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/backupfile"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/internal/etcdlog"
)

// ErrNotEmpty says that there is a database where one was to be made.
var ErrNotEmpty = errors.New("there is a database already")

// RestoreConfig says what becomes of a backup.
type RestoreConfig struct {
	// Backup is the file, or a bare snapshot of etcd.
	Backup string
	// Dir is where the data of the new member goes: Config.Dir of its server. Without Aside it
	// must be absent or hold no database.
	Dir string
	// Aside, when set, is where Dir is moved when it holds a database. It must not be there.
	Aside string
	// Name and PeerURL are of a member that others join; without them the member is alone for ever.
	Name, PeerURL string
	// Mark, when set, is the name of an empty file that appears in Dir with the data.
	Mark string
	// KeepRevisions lets the store go back to the revisions of the backup. Clients then take new
	// revisions for those that they have seen; it is for trying what happens after such a restore.
	KeepRevisions bool
	// Prepare, when set, is called with a server that runs on what was restored and that no other
	// process knows, before the data appears in Dir.
	Prepare func(endpoint string) error
	// Certify, when set, makes the certificates of that server in a folder that is gone with the restore, also
	// when this process dies and another one restores. With them only root is let in where authentication is
	// off in the restored store.
	Certify func(dir string) (certFile, keyFile, caFile string, err error)
	Logger  *slog.Logger
}

// Restored says what came out of a backup.
type Restored struct {
	// Revision of the backup, and how many keys it holds.
	Revision int64
	Keys     int
	// Aside says that a database was moved to RestoreConfig.Aside.
	Aside bool
}

// Restore makes the data directory of the only member of a cluster from a backup. It
// appears in its place whole or not at all, also when this process dies. A
// directory that a server runs on is ErrInUse; one that holds a database ErrNotEmpty, without Aside.
func Restore(cfg RestoreConfig) (out Restored, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Name == "" {
		cfg.Name, cfg.PeerURL = aloneName, alonePeer
	}
	release, err := lockIdle(cfg.Dir) // keeps a server out, and a second restore
	if err != nil {
		return out, err
	}
	defer release()
	occupied := vacant(cfg.Dir)
	if occupied != nil && (cfg.Aside == "" || !errors.Is(occupied, ErrNotEmpty)) {
		return out, occupied
	}
	work, err := workFor(cfg.Dir)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	database, err := snapshotOf(cfg.Backup, work)
	if err != nil {
		return out, err
	}
	manager := snapshot.NewV3(etcdlog.New(cfg.Logger.With("component", "etcd"), zapcore.WarnLevel, nil))
	status, err := manager.Status(database)
	if err != nil {
		return out, fmt.Errorf("%s is no database of etcd: %w", cfg.Backup, err)
	}
	made := filepath.Join(work, "etcd")
	restore := snapshot.RestoreConfig{
		SnapshotPath: database, Name: cfg.Name, OutputDataDir: made, PeerURLs: []string{cfg.PeerURL}, InitialCluster: cfg.Name + "=" + cfg.PeerURL,
		// The cluster's identity: what was a member before, or of an earlier restore, is none of this one.
		InitialClusterToken: "oscarfed-restored-" + rand.Text(),
	}
	if !cfg.KeepRevisions {
		restore.RevisionBump, restore.MarkCompacted = store.RevisionBump, true
	}
	if err := manager.Restore(restore); err != nil {
		return out, fmt.Errorf("restore %s: %w", cfg.Backup, err)
	}
	if cfg.Prepare != nil {
		if err := prepare(made, cfg); err != nil {
			return out, err
		}
	}
	if cfg.Mark != "" {
		if err := atomicfile.Write(filepath.Join(made, cfg.Mark), nil, 0o600); err != nil {
			return out, err
		}
	}
	if occupied != nil {
		err = os.Rename(cfg.Dir, cfg.Aside)
	} else {
		err = os.RemoveAll(cfg.Dir) // at most a lock and a socket
	}
	if err != nil {
		return out, err
	}
	if err := os.Rename(made, cfg.Dir); err != nil {
		return out, err
	}
	return Restored{Revision: status.Revision, Keys: status.TotalKey, Aside: occupied != nil}, atomicfile.SyncDir(filepath.Dir(cfg.Dir))
}

// SetAside moves a database that is in dir to aside, and says whether there was one. A directory that a
// server runs on is ErrInUse.
func SetAside(dir, aside string) (moved bool, err error) {
	release, err := lockIdle(dir)
	if err != nil {
		return false, err
	}
	defer release()
	occupied := vacant(dir)
	if occupied == nil || !errors.Is(occupied, ErrNotEmpty) {
		return false, occupied
	}
	if err := os.Rename(dir, aside); err != nil {
		return false, err
	}
	return true, atomicfile.SyncDir(filepath.Dir(dir))
}

// lockIdle is lock for a directory that any etcd may run on: etcd's own program knows nothing of our lock,
// and locks its log.
func lockIdle(dir string) (release func(), err error) {
	if release, err = lock(dir); err != nil {
		return nil, err
	}
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	for _, path := range logs {
		var file *fileutil.LockedFile
		if file, err = fileutil.TryLockFile(path, os.O_RDWR, fileutil.PrivateFileMode); err != nil {
			if errors.Is(err, fileutil.ErrLocked) {
				err = fmt.Errorf("%s: %w; stop it", dir, ErrInUse)
			}
			break
		}
		_ = file.Close() // nothing was written
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// workFor makes a folder beside a data directory to restore it in. The restore has the lock: what is
// there already was left by restores that were killed, and can be as large as the database.
func workFor(dir string) (string, error) {
	parent, pattern := filepath.Dir(dir), ".restore-"+filepath.Base(dir)+"-*"
	left, err := filepath.Glob(filepath.Join(parent, pattern))
	if err != nil {
		return "", err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(parent, pattern) // mode 0700
}

// snapshotOf is the file of the snapshot in a backup, which is whole: the backup itself when it is bare, else a copy in work.
func snapshotOf(backup, work string) (path string, err error) {
	b, err := backupfile.Open(backup)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if b.Bare() {
		if err := store.CheckBackup(b.Database); err != nil {
			return "", fmt.Errorf("%s: %w", backup, err)
		}
		return backup, nil
	}
	path = filepath.Join(work, "snapshot")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	err = store.CheckBackup(io.TeeReader(b.Database, f))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("%s: %w", backup, err)
	}
	return path, nil
}

// prepare lets the caller work on what was restored while no other process can. A store that was
// full takes its writes, too: its alarm is in the backup, and its file may be larger than any
// quota that is known here. The server that runs on it next has its own quota, and raises the
// alarm again where that is too small.
func prepare(dir string, cfg RestoreConfig) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	of := Config{Dir: dir, ListenClient: "127.0.0.1:0", Logger: cfg.Logger, unlimited: true}
	if cfg.Certify != nil {
		var err error
		if of.CertFile, of.KeyFile, of.CAFile, err = cfg.Certify(filepath.Dir(dir)); err != nil {
			return err
		}
		of.Guarded = true
	}
	server, err := Start(ctx, of)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.disarm(ctx); err != nil {
		return fmt.Errorf("take back the alarm of a store that was full: %w", err)
	}
	return cfg.Prepare(server.Endpoint())
}

// disarm takes back every alarm that the space quota was used up. The members that
// raised them may not be there any more.
func (s *Server) disarm(ctx context.Context) error {
	alarms, err := s.server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		return err
	}
	for _, alarm := range alarms.Alarms {
		_, err := s.server.Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: alarm.MemberID,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startTimeout bounds the start of a server on what was restored.
const startTimeout = time.Minute

// vacant says whether a directory holds nothing that is worth keeping.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lock" && e.Name() != "http.sock" {
			return fmt.Errorf("%s: %w; move it away first, and keep it until all is well: mv %s %s.old", dir, ErrNotEmpty, dir, dir)
		}
	}
	return nil
}
