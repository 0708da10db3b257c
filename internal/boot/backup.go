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
	Authority string `name:"etcd-authority" placeholder:"DIR" help:"Authority of etcd's users: root's certificate is signed for this moment. Default pki in --data-dir, where the embedded etcd has users."`
	DataDir   string `default:"/var/lib/oscarfed" placeholder:"DIR" help:"Data directory of a control plane: of the one whose embedded etcd is backed up. Its witness is in the backup, and its keys for --recovery-recipient."`
	// Recipients open the keys of a backup.
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
		when(len(c.Endpoints) > 1, "give one --etcd-endpoints: a backup is what one member holds"),
		when(slices.ContainsFunc(c.Recipients, func(r string) bool { return !seal.ValidRecipient(r) }), "--recovery-recipient must be an age recipient (age1...)"),
	)
}

// sealedAuthority is before the names of the authority's files among the keys of a backup.
const sealedAuthority = "pki/"

// defaultEtcd is where the embedded etcd of a control plane listens.
const defaultEtcd = "127.0.0.1:2379"

// authority is the directory of the authority of etcd's users, and whether it is that of the embedded
// etcd; empty where there is none.
func (c Backup) authority() (dir string, local bool) {
	if c.Authority != "" {
		return c.Authority, c.Authority == pkiDir(c.DataDir)
	}
	if c.CertFile == "" && c.CAFile == "" {
		if _, err := os.Stat(filepath.Join(pkiDir(c.DataDir), pki.AuthorityCertFile)); err == nil {
			return pkiDir(c.DataDir), true
		}
	}
	return "", false
}

// connect says how the etcd is reached that is backed up. Only root may read all of
// one that has users.
func (c Backup) connect(log *slog.Logger) (store.Config, error) {
	dir, local := c.authority()
	if dir == "" {
		if len(c.Endpoints) == 0 {
			c.Endpoints = []string{"http://" + defaultEtcd}
		}
		return c.store(log), nil
	}
	authority, err := loadAuthority(dir, time.Now)
	if err != nil {
		return store.Config{}, err
	}
	users := &etcdUsers{authority: authority, caFile: c.CAFile, endpoints: c.Endpoints, log: log}
	if local && c.CAFile == "" {
		users.caFile = filepath.Join(dir, pki.AuthorityCertFile)
	}
	if len(users.endpoints) == 0 {
		users.endpoints = []string{"https://" + defaultEtcd}
	}
	return users.config(access.Root, max(rootLife, c.Timeout)), nil
}

// parts are what a backup holds besides the database. They are read before it: a witness must not know
// of what the backup does not hold.
func (c Backup) parts(now time.Time) (map[string][]byte, error) {
	out, keys := map[string][]byte{}, map[string][]byte{}
	witness, err := readLimited(filepath.Join(c.DataDir, witnessName), backupfile.MaxPart)
	switch {
	case err == nil:
		out[backupfile.Witness] = witness
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if dir, _ := c.authority(); dir != "" {
		files, err := pki.Export(dir)
		if err != nil {
			return nil, fmt.Errorf("the authority of etcd's users: %w", err)
		}
		out[backupfile.Authority] = files[pki.AuthorityCertFile]
		for name, data := range files {
			keys[sealedAuthority+name] = data
		}
	}
	if len(c.Recipients) == 0 {
		return out, nil
	}
	identity, err := readLimited(cmp.Or(c.IdentityFile, filepath.Join(c.DataDir, identityName)), maxSecretFile)
	switch {
	case err == nil:
		keys[identityName] = identity
	case c.IdentityFile != "" || !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is nothing to seal to --recovery-recipient: neither %s nor the authority of etcd's users was found; give --identity-file, or leave the recipient out", identityName)
	}
	packed, err := backupfile.Pack(keys, now)
	if err != nil {
		return nil, err
	}
	if out[backupfile.Keys], err = seal.SealFile(packed, c.Recipients); err != nil {
		return nil, err
	}
	return out, nil
}

// RunBackup writes a backup of an etcd that runs. The file appears whole or not at all, readable by its
// owner alone.
func RunBackup(ctx context.Context, cfg Backup, log *slog.Logger, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if cfg.File != "-" {
		if err := backupfile.Replaceable(cfg.File); err != nil { // before etcd is waited for
			return err
		}
	}
	now := time.Now()
	parts, err := cfg.parts(now)
	if err != nil {
		return err
	}
	conf, err := cfg.connect(log)
	if err != nil {
		return err
	}
	st, err := dialStore(ctx, conf)
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
	if _, ok := parts[backupfile.Keys]; ok {
		sealed = "Keys are in it, sealed to --recovery-recipient."
	}
	_, err = fmt.Fprintf(out, "%s: %d bytes of etcd %s at revision %d\n%s\n", cfg.File, b.Bytes, b.Version, b.Revision, sealed)
	return err
}

// throughFile passes on what was written once it is known to be whole.
func throughFile(out io.Writer, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp("", "oscarfed-backup-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
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
	return daemon(ctx, "oscarfed backup", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunBackup(ctx, cfg, log, stdout)
	})
}
