package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
)

// Backup is the configuration of the command backup.
type Backup struct {
	File string `arg:"" help:"Where the backup goes; one that is there is replaced, and - is standard output."`
	Etcd `embed:""`
	// Authority signs root's certificate for the moment; a file with one may be given instead.
	Authority string `name:"etcd-authority" placeholder:"DIR" help:"Authority of etcd's users: root's certificate is signed for this moment. Default pki in --data-dir, where the embedded etcd has users."`
	DataDir   string `default:"/var/lib/oscarfed" placeholder:"DIR" help:"Data directory of the control plane whose embedded etcd is backed up."`

	Timeout time.Duration `env:"-" default:"10m" help:"How long it may take."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c Backup) Validate() error {
	return errors.Join(
		pair("etcd-cert-file", c.CertFile, "etcd-key-file", c.KeyFile), positive("timeout", c.Timeout),
		when(c.Authority != "" && c.CertFile != "", "give --etcd-authority or --etcd-cert-file, not both"),
		when(len(c.Endpoints) > 1, "give one --etcd-endpoints: a backup is what one member holds"),
	)
}

// defaultEtcd is where the embedded etcd of a control plane listens.
const defaultEtcd = "127.0.0.1:2379"

// connect says how the etcd is reached that is backed up. Only root may read all of
// one that has users.
func (c Backup) connect(log *slog.Logger) (store.Config, error) {
	local := pkiDir(c.DataDir)
	if c.Authority == "" && c.CertFile == "" && c.CAFile == "" {
		if _, err := os.Stat(filepath.Join(local, pki.AuthorityCertFile)); err == nil {
			c.Authority = local
		}
	}
	if c.Authority == "" {
		if len(c.Endpoints) == 0 {
			c.Endpoints = []string{"http://" + defaultEtcd}
		}
		return c.store(log), nil
	}
	authority, err := loadAuthority(c.Authority, time.Now)
	if err != nil {
		return store.Config{}, err
	}
	users := &etcdUsers{authority: authority, caFile: c.CAFile, endpoints: c.Endpoints, log: log}
	if c.Authority == local && c.CAFile == "" {
		users.caFile = filepath.Join(local, pki.AuthorityCertFile)
	}
	if len(users.endpoints) == 0 {
		users.endpoints = []string{"https://" + defaultEtcd}
	}
	return users.config(access.Root, max(rootLife, c.Timeout)), nil
}

// RunBackup writes a backup of an etcd that runs.
func RunBackup(ctx context.Context, cfg Backup, log *slog.Logger, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if cfg.File != "-" {
		if err := store.Replaceable(cfg.File); err != nil { // before etcd is waited for
			return err
		}
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
	if cfg.File == "-" {
		return backupTo(ctx, st, out)
	}
	b, err := st.Backup(ctx, cfg.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d bytes, revision %d, etcd %s\nThe control plane's key is not in it: keep a copy of identity.age, in another place, and of pki where etcd has users.\n",
		cfg.File, b.Bytes, b.Revision, b.Version)
	return err
}

// backupTo writes a backup once it is known to be whole.
func backupTo(ctx context.Context, st *store.Store, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "oscarfed-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "backup")
	if _, err := st.Backup(ctx, path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	_, err = io.Copy(out, f)
	return err
}

// BackupMain is the CLI's command backup. It answers the exit status.
func BackupMain(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	cfg, err := Load[Backup]("oscarfed backup", "Write all that an etcd holds to a file, with its hash.", args, stdout)
	return daemon(ctx, "oscarfed backup", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunBackup(ctx, cfg, log, stdout)
	})
}

// Restore is the configuration of the command restore.
type Restore struct {
	File    string `arg:"" type:"existingfile" help:"The backup."`
	DataDir string `default:"/var/lib/oscarfed" placeholder:"DIR" help:"Data directory of the control plane, which must not run."`
	NoBump  bool   `env:"-" help:"Let revisions go back to those of the backup. It is for trying what happens then."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c Restore) Validate() error { return when(c.DataDir == "", "--data-dir must not be empty") }

// RunRestore makes the embedded etcd's data from a backup. What comes out has a new
// epoch before anybody can read it: no syncer takes an old order for a new one.
func RunRestore(ctx context.Context, cfg Restore, log *slog.Logger, out io.Writer) (err error) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	// The restored data may hold users and have authentication enabled: a throw-away authority
	// lets in root alone.
	work, err := os.MkdirTemp("", "oscarfed-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	authority, err := pki.LoadOrCreate(work, authorityName, time.Now)
	if err != nil {
		return err
	}
	file := filepath.Join(work, "server.pem")
	if _, err := authority.Server(pki.ServerConfig{File: file, Hosts: []string{"127.0.0.1"}, Life: rootLife, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	ca := filepath.Join(work, pki.AuthorityCertFile)
	var epoch string
	restored, err := embedded.Restore(embedded.RestoreConfig{
		Backup: cfg.File, Dir: filepath.Join(cfg.DataDir, "etcd"), KeepRevisions: cfg.NoBump, Logger: log,
		CertFile: file, KeyFile: file, CAFile: ca,
		Prepare: func(endpoint string) error {
			users := &etcdUsers{authority: authority, caFile: ca, endpoints: []string{endpoint}, log: log}
			st, err := users.root(ctx)
			if err != nil {
				return err
			}
			defer closeStore(st, log)
			epoch, err = recovery.Renew(ctx, st, filepath.Join(cfg.DataDir, witnessName), time.Now())
			return err
		},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored %d keys at revision %d; the new epoch is %s\n", restored.Keys, restored.Revision, epoch)
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "identity.age")); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(out, "There is no identity.age in %s: put the control plane's key there, or give --identity-file. With another key nothing can be opened.\n", cfg.DataDir)
	}
	_, err = fmt.Fprintln(out, "Start the control plane; oscarfed describe then lists what differs on the clusters.")
	return err
}

// RestoreMain is the CLI's command restore. It answers the exit status.
func RestoreMain(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	cfg, err := Load[Restore]("oscarfed restore", "Make the data of an embedded etcd from a backup.", args, stdout)
	return daemon(ctx, "oscarfed restore", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunRestore(ctx, cfg, log, stdout)
	})
}
