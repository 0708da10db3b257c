package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/members"
)

// etcdCommand is one command below etcd.
type etcdCommand struct {
	name, help string
	run        func(ctx context.Context, name, help string, args []string, stdout, stderr io.Writer) int
}

// etcdCommands are for who runs an external etcd.
func etcdCommands() []etcdCommand {
	return []etcdCommand{
		{"authority", "Make the authority of etcd's users, where it is missing.", etcdRun(RunEtcdAuthority)},
		{"setup", "Give an external etcd the users and roles that a federation needs, and switch its authentication on. May be repeated.", etcdRun(RunEtcdSetup)},
		{"replace-member", "Replace a member that lost its data, and wait until the new one runs. May be repeated.", etcdRun(RunEtcdReplaceMember)},
		{"prepare-member", "Wait until a member can start safely, and write its configuration. The chart runs it before each start.", etcdRun(RunEtcdPrepareMember)},
		{"restore-member", "Make the data of a member from a backup, or move it aside so that it joins one that was restored.", etcdRun(RunEtcdRestoreMember)},
		{"root-certificate", "Sign a certificate of etcd's root, for etcdctl.", etcdRun(RunEtcdRootCertificate)},
	}
}

// etcdConfig is the configuration of a command.
type etcdConfig interface {
	Validate() error
	logging() Log
}

func (l Log) logging() Log { return l }

// etcdRun runs a command with its configuration.
func etcdRun[T etcdConfig](run func(context.Context, T, *slog.Logger, io.Writer) error) func(context.Context, string, string, []string, io.Writer, io.Writer) int {
	return func(ctx context.Context, name, help string, args []string, stdout, stderr io.Writer) int {
		name = "oscarfed etcd " + name
		cfg, err := Load[T](name, help, args, stdout)
		var log Log
		if err == nil {
			log = cfg.logging()
		}
		return command(ctx, name, log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
			return run(ctx, cfg, log, stdout)
		})
	}
}

// EtcdMain are the commands below etcd. It answers the exit status.
func EtcdMain(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	commands := etcdCommands()
	if len(args) > 0 {
		if i := slices.IndexFunc(commands, func(c etcdCommand) bool { return c.name == args[0] }); i >= 0 {
			return commands[i].run(ctx, commands[i].name, commands[i].help, args[1:], stdout, stderr)
		}
	}
	status, out := exitUsage, stderr
	if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
		status, out = exitDone, stdout
	}
	fmt.Fprintln(out, "usage: oscarfed etcd COMMAND; --help after the command says more")
	for _, c := range commands {
		fmt.Fprintf(out, "  %-17s %s\n", c.name, c.help)
	}
	return status
}

// EtcdAuthority is the configuration of the command etcd authority.
type EtcdAuthority struct {
	CAOut string `name:"ca-out" required:"" placeholder:"DIR" help:"Directory of the authority: ca.crt, which every member of etcd trusts, and ca.key."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c EtcdAuthority) Validate() error { return when(c.CAOut == "", "--ca-out must not be empty") }

// RunEtcdAuthority makes an authority before there is an etcd.
func RunEtcdAuthority(_ context.Context, cfg EtcdAuthority, _ *slog.Logger, out io.Writer) error {
	if _, err := pki.LoadOrCreate(cfg.CAOut, authorityName, time.Now); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "The authority of etcd's users is %s. Who has its ca.key is root of etcd.\n", cfg.CAOut)
	return err
}

// EtcdRootCertificate is the configuration of the command etcd root-certificate.
type EtcdRootCertificate struct {
	Authority string        `name:"etcd-authority" required:"" placeholder:"DIR" help:"Authority of etcd's users; of an embedded etcd pki in the data directory."`
	Out       string        `env:"-" required:"" placeholder:"DIR" help:"Where root.crt and root.key go; made when it is missing."`
	Life      time.Duration `env:"-" default:"1h" help:"How long it is valid, a day at most."`

	Log `embed:""`
}

// maxRootLife is the longest life of a certificate of root that is in a file.
const maxRootLife = 24 * time.Hour

// Validate reports everything that is wrong.
func (c EtcdRootCertificate) Validate() error {
	return errors.Join(
		when(c.Authority == "" || c.Out == "", "--etcd-authority and --out must not be empty"),
		when(c.Life < time.Minute || c.Life > maxRootLife, "--life is from 1m to 24h"),
	)
}

// RunEtcdRootCertificate signs a certificate of root for who debugs etcd with its own tools.
func RunEtcdRootCertificate(_ context.Context, cfg EtcdRootCertificate, _ *slog.Logger, out io.Writer) error {
	authority, err := loadAuthority(cfg.Authority, time.Now)
	if err != nil {
		return err
	}
	cert, key, err := authority.Issue(pki.Subject{Name: access.Root, Life: cfg.Life})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Out, 0o700); err != nil {
		return err
	}
	certFile, keyFile := filepath.Join(cfg.Out, "root.crt"), filepath.Join(cfg.Out, "root.key")
	if err := errors.Join(atomicfile.Write(keyFile, key, 0o600), atomicfile.Write(certFile, cert, 0o600)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "export ETCDCTL_CERT=%s ETCDCTL_KEY=%s\n", certFile, keyFile)
	return err
}

// EtcdReplaceMember is the configuration of the command etcd replace-member.
type EtcdReplaceMember struct {
	Name      string `arg:"" help:"The member that lost its data."`
	Etcd      `embed:""`
	Authority string        `name:"etcd-authority" placeholder:"DIR" help:"Authority of etcd's users: root's certificate is signed for this moment."`
	PeerURL   []string      `env:"-" sep:"," placeholder:"URL" help:"Peer URLs of the new member, where the old one was removed already."`
	Wait      time.Duration `env:"-" default:"10m" help:"How long the new member is waited for; 0 is not at all."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c EtcdReplaceMember) Validate() error {
	return errors.Join(
		pair("etcd-cert-file", c.CertFile, "etcd-key-file", c.KeyFile),
		when(c.Authority != "" && c.CertFile != "", "give --etcd-authority or --etcd-cert-file, not both"),
		when(len(c.Endpoints) == 0, "give --etcd-endpoints, all members"),
		when(c.Wait < 0, "--wait must not be negative"),
	)
}

// RunEtcdReplaceMember replaces a member, says how the new one is started, and waits for it.
func RunEtcdReplaceMember(ctx context.Context, cfg EtcdReplaceMember, log *slog.Logger, out io.Writer) (err error) {
	conf := cfg.store(log)
	if cfg.Authority != "" {
		authority, err := loadAuthority(cfg.Authority, time.Now)
		if err != nil {
			return err
		}
		users := &etcdUsers{authority: authority, caFile: cfg.CAFile, endpoints: cfg.Endpoints, log: log}
		conf = users.config(access.Root, max(rootLife, 2*cfg.Wait))
	}
	client, err := store.Dial(conf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	added, all, err := members.Replace(ctx, client, cfg.Name, cfg.PeerURL)
	if err != nil {
		return err
	}
	peers := peersOf(all, func(peer string) string {
		if slices.Contains(added.PeerURLs, peer) {
			return cfg.Name
		}
		return ""
	})
	fmt.Fprintf(out, "%s is replaced. It starts without data, and with\n  --initial-cluster-state existing --initial-cluster %s\n", cfg.Name, initialCluster(peers))
	if cfg.Wait == 0 {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, cfg.Wait)
	defer cancel()
	if err := members.Await(waiting, client, added.ID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s runs\n", cfg.Name)
	return err
}
