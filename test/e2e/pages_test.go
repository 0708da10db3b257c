package e2e_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/docs"
	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/internal/cli"
)

// TestMain is the command line when the test binary is called oscarfed, as pages of the documentation call it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "oscarfed" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, cli.Command{Name: "dev", Run: boot.DevMain})
	stop()
	os.Exit(status)
}

// console is one command of a page, and its output.
type console struct{ command, output string }

// blocks are the blocks of a page in one language.
func blocks(t *testing.T, page, language string) []docs.Block {
	t.Helper()
	all, err := docs.Blocks(page, "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(b docs.Block) bool { return b.Language != language })
}

// consoles are the commands of a page's console blocks, in their order.
func consoles(t *testing.T, page string) []console {
	t.Helper()
	var out []console
	for _, block := range blocks(t, page, "console") {
		continued := false
		for line := range strings.Lines(block.Text) {
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

// changingText matches what has another value at each run: a job's id, a password, an address, the folder of
// the checkout, a duration. "..." stands for anything.
var changingText = regexp.MustCompile(`\.\.\.|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[A-Z2-7]{26}\b|127\.0\.0\.1:\d+|/\S+/bin/dev|\b[0-9.]+m?s\b`)

// values are those of this run, by those that the page has in their place.
type values map[string]string

// shows says whether an output is as a page shows it, apart from the width of columns, and learns
// the values that the page has others for.
func (v values) shows(page, output string) bool {
	page, output = plain(page), plain(output)
	var expr strings.Builder
	var names []string
	at := 0
	for _, m := range changingText.FindAllStringIndex(page, -1) {
		expr.WriteString(regexp.QuoteMeta(page[at:m[0]]))
		at = m[1]
		switch name := page[m[0]:m[1]]; {
		case name == "...":
			expr.WriteString(".*")
		case v[name] != "":
			expr.WriteString(regexp.QuoteMeta(v[name]))
		default:
			expr.WriteString("(" + changingText.String() + ")")
			names = append(names, name)
		}
	}
	found := regexp.MustCompile(`(?s)^` + expr.String() + regexp.QuoteMeta(page[at:]) + `$`).FindStringSubmatch(output)
	if found == nil {
		return false
	}
	for i, name := range names {
		if !strings.HasSuffix(name, "s") { // a duration names nothing
			v[name] = found[i+1]
		}
	}
	return true
}

// here is a command of the page with the values of this run.
func (v values) here(command string) string {
	for page, here := range v {
		command = strings.ReplaceAll(command, page, here)
	}
	return command
}

// plain is a text without what a terminal does not show.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// endOfCommand is what the shell says after a command, before its status.
const endOfCommand = "--- end of the command: "

// runPage runs a page's commands in one shell, as a reader would, and compares what they print with
// what the page shows. It returns them as they were here.
func runPage(t *testing.T, page, dir string, env ...string) []console {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh")
	sh.Dir = dir
	sh.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=" + os.Getenv("GORACE")}, env...)
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sh.Stdout, sh.Stderr = in, in
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) }
	limit := time.AfterFunc(5*time.Minute, kill)
	defer func() {
		limit.Stop()
		kill()
		_ = sh.Wait()
		_, _ = io.Copy(io.Discard, out) // until no process of the shell is left to write
		_ = out.Close()
	}()
	_ = in.Close()
	v, lines := values{}, bufio.NewReader(out)
	var ran []console
	for _, c := range consoles(t, page) {
		command := v.here(c.command)
		if _, err := io.WriteString(stdin, "{ "+command+"} </dev/null\necho '"+endOfCommand+"'$?\n"); err != nil {
			t.Fatal(err)
		}
		got, status, shown := "", "", false
		background := strings.HasSuffix(command, "&\n")
		for status == "" || background && !shown {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v, after\n%s\nand the page shows:\n%s", command, err, got, c.output)
			}
			before, after, ended := strings.Cut(line, endOfCommand)
			if got += before; ended {
				status = strings.TrimSpace(after)
			}
			shown = (ended || background) && v.shows(c.output, got)
		}
		if status != "0" || !shown && !v.shows(c.output, got) {
			t.Fatalf("%s: status %s\nprints:\n%s\nand the page shows:\n%s", command, status, got, c.output)
		}
		ran = append(ran, console{command: command, output: got})
	}
	return ran
}

// checkout is a folder with what a reader has after make build.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"bin/oscarfed": self, "examples": examples} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The quickstart shows what its commands print. Its run is the recording of README.
func TestTheQuickstartRuns(t *testing.T) {
	dir := checkout(t)
	ran := runPage(t, "quickstart.md", dir, "OSCARFED_LISTEN=127.0.0.1:0", "OSCARFED_ETCD_LISTEN=127.0.0.1:0")
	if len(ran) < 8 {
		t.Fatalf("only %d commands", len(ran))
	}
	for i := range ran {
		ran[i].output = strings.ReplaceAll(ran[i].output, dir, "/home/ann/oscarfed")
	}
	drawRecording(t, ran)
}

// The configuration file that docs/configuration.md shows is one, and its context is listed.
func TestTheConfigurationFileOfThePageIsRead(t *testing.T) {
	files := blocks(t, "configuration.md", "yaml")
	if len(files) == 0 {
		t.Fatal("the page shows no file")
	}
	dir := checkout(t)
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(files[0].Text), 0o600); err != nil {
		t.Fatal(err)
	}
	runPage(t, "configuration.md", dir, "OSCARFED_CONFIG=config.yaml")
}
