//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "kubenode: a node needs Linux")
	os.Exit(1)
}
