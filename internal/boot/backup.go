package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/backupfile"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Backup is the configuration of the command backup.
type Backup struct {
	File string `arg:"" help:"Where the backup goes; one that is there is replaced, and - is standard output."`
	Etcd `embed:""`
	// Authority signs root's certificate for the moment; a file with one may be given instead.
	Authority    string   `name:"etcd-authority" placeholder:"DIR" help:"Authority of etcd's users: root's certificate is signed for this moment. Default pki in --data-dir, where the embedded etcd has users."`
	DataDir      string   `default:"/var/lib/oscarfed" placeholder:"DIR" help:"Data directory of a control plane: of the one whose embedded etcd is backed up. Its witness is in the backup, and its keys for --recovery-recipient."`
	Recipients   []string `name:"recovery-recipient" placeholder:"AGE" help:"age1... of who restores: the control plane's key and the authority of etcd's users are in the backup, encrypted for him. Without one they are left out."`
	IdentityFile string   `placeholder:"FILE" help:"The control plane's age key, for --recovery-recipient; default identity.age in --data-dir."`

	Timeout time.Duration `env:"-" default:"10m" help:"How long it may take."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c Backup) Validate() error {
	return errors.Join(
		pair("etcd-cert-file", c.CertFile, "etcd-key-file", c.KeyFile), positive("timeout", c.Timeout),
		when(c.Authority != "" && c.CertFile != "", "give --etcd-authority or --etcd-cert-file, not both"),
		when(slices.ContainsFunc(c.Recipients, func(r string) bool { return !seal.ValidRecipient(r) }), "--recovery-recipient must be an age recipient (age1...)"),
	)
}

// sealedAuthority is before the names of the authority's files among the keys of a backup.
const sealedAuthority = "pki/"

// defaultEtcd is where the embedded etcd of a control plane listens.
const defaultEtcd = "127.0.0.1:2379"

// authority is that of etcd's users, and its directory; nil where there is none, or where a certificate of
// root is given.
func (c Backup) authority() (*pki.Authority, string, error) {
	dir := c.Authority
	if dir == "" && c.CertFile == "" && c.CAFile == "" {
		dir = pkiDir(c.DataDir)
		if _, err := os.Stat(filepath.Join(dir, pki.AuthorityCertFile)); err != nil {
			return nil, "", nil //nolint:nilerr // etcd has no users
		}
	}
	if dir == "" {
		return nil, "", nil
	}
	authority, err := loadAuthority(dir, time.Now)
	return authority, dir, err
}

// connect says how the etcd is reached that is backed up. Only root may read all of
// one that has users.
func (c Backup) connect(authority *pki.Authority, dir string, log *slog.Logger) store.Config {
	if authority == nil {
		if len(c.Endpoints) == 0 {
			c.Endpoints = []string{"http://" + defaultEtcd}
		}
		return c.store(log)
	}
	users := &etcdUsers{authority: authority, caFile: c.CAFile, endpoints: c.Endpoints, log: log}
	if dir == pkiDir(c.DataDir) && c.CAFile == "" {
		users.caFile = filepath.Join(dir, pki.AuthorityCertFile)
	}
	if len(users.endpoints) == 0 {
		users.endpoints = []string{"https://" + defaultEtcd}
	}
	return users.config(access.Root, max(rootLife, c.Timeout))
}

// parts are what a backup holds besides the database. They are read before it: a witness must not know
// of what the backup does not hold.
func (c Backup) parts(authority *pki.Authority, now time.Time) (map[string][]byte, error) {
	out := map[string][]byte{}
	witness, err := readLimited(filepath.Join(c.DataDir, witnessName), backupfile.MaxPart)
	switch {
	case err == nil:
		out[backupfile.Witness] = witness
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if authority != nil {
		out[backupfile.Authority] = authority.CertPEM()
	}
	if len(c.Recipients) == 0 {
		return out, nil
	}
	keys := map[string][]byte{}
	if keys[identityName], err = readLimited(cmp.Or(c.IdentityFile, filepath.Join(c.DataDir, identityName)), maxSecretFile); err != nil {
		return nil, fmt.Errorf("the control plane's key, which is sealed to --recovery-recipient (--identity-file says where it is): %w", err)
	}
	if authority != nil {
		files, err := authority.Files()
		if err != nil {
			return nil, err
		}
		for name, data := range files {
			keys[sealedAuthority+name] = data
		}
	}
	packed, err := backupfile.Pack(keys, now)
	if err != nil {
		return nil, err
	}
	out[backupfile.Keys], err = seal.SealFile(packed, c.Recipients)
	return out, err
}

// RunBackup writes a backup of an etcd that runs. The file appears whole or not at all, readable by its
// owner alone.
func RunBackup(ctx context.Context, cfg Backup, log *slog.Logger, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if err := replaceable(cfg.File); err != nil { // before etcd is waited for
		return err
	}
	if err := cfg.somewhere(); err != nil {
		return err
	}
	now := time.Now()
	authority, dir, err := cfg.authority()
	if err != nil {
		return err
	}
	parts, err := cfg.parts(authority, now)
	if err != nil {
		return err
	}
	// A backup is what one member holds.
	st, from, err := dialMember(ctx, cfg.connect(authority, dir, log))
	if err != nil {
		return err
	}
	defer closeStore(st, log)
	var b store.Backup
	write := func(f *os.File) error {
		return backupfile.Write(f, parts, now, func(w io.Writer) (err error) {
			b, err = st.Backup(ctx, w)
			return err
		})
	}
	if cfg.File == "-" {
		return throughFile(out, write)
	}
	// One that was killed leaves its file, which can be as large as the database. One that runs has a limit.
	if err := atomicfile.Sweep(cfg.File, now.Add(-cfg.Timeout)); err != nil {
		log.Warn("what backups that were killed have left was not removed", "error", err)
	}
	part, err := atomicfile.New(cfg.File)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, part.Discard()) }()
	if err := write(part.File); err != nil {
		return err
	}
	if err := part.Commit(); err != nil {
		return err
	}
	sealed := "Keys are not in it: keep a copy of identity.age in another place, or give --recovery-recipient."
	if len(cfg.Recipients) > 0 {
		sealed = "Keys are in it, sealed to --recovery-recipient."
	}
	_, err = fmt.Fprintf(out, "%s: %d bytes of etcd %s at %s, revision %d\n%s\n", cfg.File, b.Bytes, b.Version, from, b.Revision, sealed)
	return err
}

// somewhere refuses to take whatever answers where an embedded etcd listens, on a machine that has no
// control plane.
func (c Backup) somewhere() error {
	if len(c.Endpoints) > 0 {
		return nil
	}
	if _, err := os.Stat(c.DataDir); err != nil {
		return fmt.Errorf("no data directory of a control plane: %w; give --data-dir, or --etcd-endpoints of an external etcd", err)
	}
	return nil
}

// replaceable refuses what is no regular file: to rename a file over a device, a pipe or a link would
// replace it.
func replaceable(path string) error {
	if path == "-" {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("backup: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("backup: %s is not a regular file; name another one, or - for standard output", path)
	}
	return nil
}

// throughFile passes on what was written once it is known to be whole. The file has no name: a process that is killed
// leaves none.
func throughFile(out io.Writer, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp("", "oscarfed-backup-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

// BackupMain is the CLI's command backup. It answers the exit status.
func BackupMain(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	cfg, err := Load[Backup]("oscarfed backup", "Write a file with everything that a restore needs: all that etcd holds, the witness, and keys where somebody may open them.", args, stdout)
	return command(ctx, "oscarfed backup", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunBackup(ctx, cfg, log, stdout)
	})
}
