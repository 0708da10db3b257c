// Command oscar-syncer runs the daemon beside one OSCAR.
package main

import (
	"context"
	"os"

	"github.com/oscarfed/oscarfed/internal/boot"
)

func main() {
	os.Exit(boot.SyncerMain(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
