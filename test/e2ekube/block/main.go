// Command block prints a block below a heading of a page: block PAGE HEADING N, from 0.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/oscarfed/oscarfed/docs"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: block PAGE HEADING N")
		os.Exit(2)
	}
	text, err := block(os.Args[1], os.Args[2], os.Args[3])
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "block:", err)
		os.Exit(1)
	}
}

func block(page, heading, which string) (string, error) {
	blocks, err := docs.Blocks(page, heading)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(which)
	if err != nil || n < 0 || n >= len(blocks) {
		return "", fmt.Errorf("%s, %q has no block %s: there are %d", page, heading, which, len(blocks))
	}
	return blocks[n].Text, nil
}
