package boot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/oscarfed/oscarfed/store/embedded"
)

// EtcdRestoreMember is the configuration of the command etcd restore-member.
type EtcdRestoreMember struct {
	Name         string `arg:"" help:"The member's name in initial-cluster."`
	MemberConfig string `env:"-" required:"" placeholder:"FILE" help:"etcd's configuration file, the same for all members, with initial-cluster."`
	Backup       string `env:"-" type:"existingfile" placeholder:"FILE" help:"The backup, for one of the members. The others are restored without: their data is moved aside, and they join that one."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c EtcdRestoreMember) Validate() error {
	return when(c.MemberConfig == "", "--member-config must not be empty")
}

// RunEtcdRestoreMember prepares the data of one member of etcd, which must not run, for a restore: that of
// one member is made from the backup, that of the others is moved aside. The one begins a new cluster when
// prepare-member sees that the others have no data; then they join. It can be repeated after any end: as
// long as it was not done for all members, etcd goes on as it was, or not at all.
func RunEtcdRestoreMember(ctx context.Context, cfg EtcdRestoreMember, log *slog.Logger, out io.Writer) error {
	file, err := readMemberFile(cfg.MemberConfig, cfg.Name)
	if err != nil {
		return err
	}
	dir := file.text(dataDirKey)
	aside := asideOf(dir, time.Now())
	if cfg.Backup == "" {
		moved, err := embedded.SetAside(dir, aside)
		if err != nil {
			return err
		}
		what := "has no data"
		if moved {
			what = "has no data any more: it is " + aside + " now"
		}
		_, err = fmt.Fprintf(out, "%s %s, and joins the member that is restored.\n", cfg.Name, what)
		return err
	}
	restored, epoch, err := restoreEtcd(ctx, embedded.RestoreConfig{
		Backup: cfg.Backup, Dir: dir, Aside: aside, Name: cfg.Name, PeerURL: file.peers[cfg.Name], Mark: restoredMark, Logger: log,
	}, "", func() error { return nil })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored %d keys at revision %d; the new epoch is %s\n", restored.Keys, restored.Revision, epoch)
	if restored.Aside {
		fmt.Fprintf(out, "The data that was there is %s now.\n", aside)
	}
	_, err = fmt.Fprintf(out, "%s starts when the other members have no data.\n", cfg.Name)
	return err
}
