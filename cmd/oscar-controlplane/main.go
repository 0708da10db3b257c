// Command oscar-controlplane runs one instance of the control plane.
package main

import (
	"context"
	"os"

	"github.com/oscarfed/oscarfed/internal/boot"
)

func main() {
	os.Exit(boot.ControlPlaneMain(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
