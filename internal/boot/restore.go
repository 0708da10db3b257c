package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/backupfile"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Restore is the configuration of the command restore.
type Restore struct {
	File             string `arg:"" type:"existingfile" help:"The backup; a snapshot of etcdctl will do."`
	DataDir          string `default:"/var/lib/oscarfed" placeholder:"DIR" help:"Data directory of the control plane, which must not run."`
	RecoveryIdentity string `name:"recovery-identity-file" placeholder:"FILE" help:"The age key that opens the keys in the backup. Those that the data directory lacks are put there."`
	Replace          bool   `env:"-" help:"Move a database that is there aside, to etcd.before-TIME in the data directory."`
	NoBump           bool   `env:"-" help:"Let revisions go back to those of the backup. It is for trying what happens then."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c Restore) Validate() error { return when(c.DataDir == "", "--data-dir must not be empty") }

// RunRestore makes the embedded etcd's data from a backup. What comes out has a new
// epoch before anybody can read it: no syncer takes an old order for a new one. It works in the data
// directory alone, and can be repeated after any end.
func RunRestore(ctx context.Context, cfg Restore, log *slog.Logger, out io.Writer) error {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	parts, keys, err := cfg.read()
	if err != nil {
		return err
	}
	dir, aside := etcdDir(cfg.DataDir), ""
	if cfg.Replace {
		aside = asideOf(dir, time.Now())
	}
	restored, epoch, err := restoreEtcd(ctx, embedded.RestoreConfig{
		Backup: cfg.File, Dir: dir, Aside: aside, KeepRevisions: cfg.NoBump, Logger: log,
	}, filepath.Join(cfg.DataDir, witnessName), func() error {
		// What goes with the database is there before it: a restore that was cut off is repeated.
		return cfg.place(parts, keys, out)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored %d keys at revision %d; the new epoch is %s\n", restored.Keys, restored.Revision, epoch)
	if restored.Aside {
		fmt.Fprintf(out, "The database that was there is %s now.\n", aside)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, identityName)); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "There is no %s in %s: put the control plane's key there, or give --identity-file. With another key nothing can be opened.\n", identityName, cfg.DataDir)
	}
	_, err = fmt.Fprintln(out, "Start the control plane; oscarfed describe then lists what differs on the clusters.")
	return err
}

// asideOf is where a database goes that is in the way of a restore.
func asideOf(dir string, now time.Time) string {
	return dir + ".before-" + now.UTC().Format("20060102T150405.000Z")
}

// restoreEtcd makes the data of an etcd from a backup, and gives it a new epoch before anybody else can
// read it. witness is the file of an instance that used the former store, if there is one; then is done
// before the data appears.
func restoreEtcd(ctx context.Context, cfg embedded.RestoreConfig, witness string, then func() error) (out embedded.Restored, epoch string, err error) {
	// The restored data may hold users and have authentication enabled: a throw-away authority
	// lets in root alone.
	var authority *pki.Authority
	var caFile string
	cfg.Certify = func(dir string) (certFile, keyFile, _ string, err error) {
		if authority, err = pki.LoadOrCreate(dir, authorityName, time.Now); err != nil {
			return "", "", "", err
		}
		file := filepath.Join(dir, "server.pem")
		_, err = authority.Server(pki.ServerConfig{File: file, Hosts: []string{"127.0.0.1"}, Life: rootLife, Logger: slog.New(slog.DiscardHandler)})
		caFile = filepath.Join(dir, pki.AuthorityCertFile)
		return file, file, caFile, err
	}
	cfg.Prepare = func(endpoint string) error {
		users := &etcdUsers{authority: authority, caFile: caFile, endpoints: []string{endpoint}, log: cfg.Logger}
		st, err := users.root(ctx)
		if err != nil {
			return err
		}
		defer closeStore(st, cfg.Logger)
		if epoch, err = recovery.Renew(ctx, st, witness, time.Now()); err != nil {
			return err
		}
		return then()
	}
	out, err = embedded.Restore(cfg)
	return out, epoch, err
}

// read reads what is in the backup besides the database, and opens its keys.
func (c Restore) read() (parts, keys map[string][]byte, err error) {
	b, err := backupfile.Open(c.File)
	if err != nil {
		return nil, nil, err
	}
	if err := b.Close(); err != nil {
		return nil, nil, err
	}
	if c.RecoveryIdentity == "" {
		return b.Parts, nil, nil
	}
	sealed, ok := b.Parts[backupfile.Keys]
	if !ok {
		return nil, nil, errors.New("the backup holds no keys: it was made without --recovery-recipient; leave --recovery-identity-file out")
	}
	id, err := seal.Load(c.RecoveryIdentity)
	if err != nil {
		return nil, nil, err
	}
	packed, err := id.OpenFile(sealed, backupfile.MaxPart)
	if err != nil {
		return nil, nil, fmt.Errorf("the keys in the backup are not for %s: %w", id.Recipient(), err)
	}
	keys, err = backupfile.Unpack(packed)
	return b.Parts, keys, err
}

// place puts what belongs to the database into the data directory. What is there already stays.
func (c Restore) place(parts, keys map[string][]byte, out io.Writer) error {
	if witness, ok := parts[backupfile.Witness]; ok {
		if err := recovery.RestoreWitness(filepath.Join(c.DataDir, witnessName), witness); err != nil {
			// The store has a new epoch already: a restore does not fail for it.
			fmt.Fprintf(out, "The witness is left out: %v\n", err)
		}
	}
	if identity, ok := keys[identityName]; ok {
		path := filepath.Join(c.DataDir, identityName)
		err := atomicfile.Create(path, identity, 0o600)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		from, err := seal.Parse(identity)
		if err != nil {
			return fmt.Errorf("the control plane's key in the backup %w", err)
		}
		if here, err := seal.Load(path); err != nil || here.Recipient() != from.Recipient() {
			fmt.Fprintf(out, "%s is another key than the one in the backup, and it stays. When the control plane does not start with it, move it away and restore again.\n", path)
		}
	}
	authority := map[string][]byte{}
	for name, data := range keys {
		if name, ok := strings.CutPrefix(name, sealedAuthority); ok {
			authority[name] = data
		}
	}
	if len(authority) > 0 {
		err := pki.Place(pkiDir(c.DataDir), authority)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("the authority of etcd's users: %w", err)
		}
	}
	clusters, ok := parts[backupfile.Authority]
	if !ok {
		return nil
	}
	here, err := os.ReadFile(filepath.Join(pkiDir(c.DataDir), pki.AuthorityCertFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintln(out, "The authority of etcd's users is not here; a control plane with an embedded etcd makes another one. Syncers notice it, and renew their certificates by themselves.")
	case err != nil:
		return err
	case !bytes.Equal(here, clusters):
		fmt.Fprintln(out, "The authority of etcd's users in the data directory is another one than when the backup was made; it stays. Syncers that do not know it notice it, and renew their certificates by themselves.")
	}
	return nil
}

// RestoreMain is the CLI's command restore. It answers the exit status.
func RestoreMain(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	cfg, err := Load[Restore]("oscarfed restore", "Make the data of an embedded etcd from a backup.", args, stdout)
	return command(ctx, "oscarfed restore", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunRestore(ctx, cfg, log, stdout)
	})
}
