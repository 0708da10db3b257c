// Command pause is the process that holds the namespaces of a pod. With arguments it writes them
// and ends, which makes it a program for pods of tests.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stdout, strings.Join(os.Args[1:], " "))
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
