// Command oscarfed is the command line of the federation.
package main

import (
	"context"
	"os"

	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := cli.Interruptible(context.Background())
	defer stop()
	return cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr,
		cli.Command{Name: "dev", Help: "Run a whole federation in this process, over simulated OSCARs.", Run: boot.DevMain},
		cli.Command{Name: "backup", Help: "Write all that an etcd holds to a file.", Run: boot.BackupMain},
		cli.Command{Name: "etcd", Help: "Prepare an external etcd, and replace its members.", Run: boot.EtcdMain},
		cli.Command{Name: "restore", Help: "Make the data of an embedded etcd from a backup.", Run: boot.RestoreMain},
	)
}
