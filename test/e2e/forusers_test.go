package e2e_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

// console is one command of a page, and the output that the page shows.
type console struct{ command, output string }

// consoles are the commands of a page's console blocks, in their order.
func consoles(page string) []console {
	var out []console
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		continued := false
		for line := range strings.Lines(block[1]) {
			command, begins := strings.CutPrefix(line, "$ ")
			switch {
			case begins:
				out = append(out, console{command: command})
			case continued:
				out[len(out)-1].command += line
			default:
				out[len(out)-1].output += line
			}
			continued = (begins || continued) && strings.HasSuffix(line, "\\\n")
		}
	}
	return out
}

// shows says whether an output is as a page shows it; "..." stands for anything.
func shows(page, output string) bool {
	parts := strings.Split(strings.TrimSpace(page), "...")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	output = strings.ReplaceAll(output, "\r", "")
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(strings.TrimSpace(output))
}

// The page for users of an OSCAR shows what its commands print.
func TestThePageForUsersOfAnOSCARRuns(t *testing.T) {
	page, err := os.ReadFile("../../docs/for-oscar-users.md")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := world.New(t, world.Options{Issuer: issuer.Serve(t, l, "")})
	w.AddUser(ann)
	w.AwaitStreams(w.CP)
	all := consoles(string(page))
	if len(all) < 8 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, c := range all {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, "sh", "-c", c.command)
		cmd.Env = append(os.Environ(), "API="+w.API, "TOKEN="+w.Token(ann, nil))
		got, err := cmd.CombinedOutput()
		cancel()
		if err != nil || !shows(c.output, string(got)) {
			t.Errorf("%s: %v\nprints:\n%s\nand the page shows:\n%s", c.command, err, got, c.output)
		}
	}
}
