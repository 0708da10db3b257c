//go:build linux

package runbook_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/internal/cli"
	"github.com/oscarfed/oscarfed/test/machines"
)

// programs are those that the test's binary is when it is called so.
func programs() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"systemctl": systemctl,
		"etcd": func([]string) int {
			etcdmain.Main(os.Args)
			return 0
		},
		"oscarfed": func(args []string) int {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return cli.Run(ctx, args, os.Stdin, os.Stdout, os.Stderr,
				cli.Command{Name: "backup", Run: boot.BackupMain}, cli.Command{Name: "etcd", Run: boot.EtcdMain},
				cli.Command{Name: "restore", Run: boot.RestoreMain})
		},
		"oscar-controlplane": func(args []string) int {
			return boot.ControlPlaneMain(context.Background(), args, os.Stdout, os.Stderr)
		},
		"oscar-syncer": func(args []string) int {
			return boot.SyncerMain(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
}

func TestMain(m *testing.M) {
	os.Exit(machines.Main(func() int {
		program, ok := programs()[filepath.Base(os.Args[0])]
		if !ok {
			return m.Run()
		}
		go endWithTheTest()
		return program(os.Args[1:])
	}))
}

// endWithTheTest ends this process when the test's is gone, whatever that died of.
func endWithTheTest() {
	host, _, _ := strings.Cut(strings.TrimPrefix(os.Getenv(systemVar), "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
	os.Exit(1)
}
