package command

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// Ctrl-C in an editor is one of its keys: what is saved is read, and the command goes on. After it Ctrl-C is the command's.
func TestAnEditorKeepsItsInterrupts(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "go-on")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "editor")
	if err := os.WriteFile(script, []byte("echo waits\nread line < "+fifo+"\necho saved >> \"$1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "sh "+script)
	seen := make(chan os.Signal, 1)
	signal.Notify(seen, os.Interrupt)
	defer signal.Stop(seen)
	ctx, stop := Interruptible(t.Context())
	defer stop()

	out, waits := io.Pipe()
	go func() {
		defer func() { _, _ = io.Copy(io.Discard, out) }()
		if _, err := io.ReadFull(out, make([]byte, len("waits\n"))); err != nil {
			t.Error(err)
			return
		}
		interrupt(t)
		<-seen
		if err := os.WriteFile(fifo, []byte("line\n"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	a := &App{Stdin: strings.NewReader(""), Stdout: waits, Stderr: io.Discard}
	text, err := a.InEditor(ctx, filepath.Join(dir, "text"), []byte("shown\n"), 1000)
	if err != nil || string(text) != "shown\nsaved\n" || ctx.Err() != nil {
		t.Fatalf("%q, %v, %v", text, err, context.Cause(ctx))
	}
	_ = waits.Close()
	interrupt(t)
	<-ctx.Done()
	if cause := context.Cause(ctx).Error(); cause != "interrupt signal received" {
		t.Error(cause)
	}
}

func interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Error(err)
	}
}

// A question ends when the person interrupts the command, and not with the line that he would have typed.
func TestAnInterruptEndsAQuestion(t *testing.T) {
	t.Setenv("TERM", "xterm")
	person, app := terminal(t)
	ctx, stop := context.WithCancel(t.Context())
	app.Stdin = Input(ctx, app.Stdin)
	asked := make(chan error, 1)
	go func() { asked <- Asking{}.Ask(app, "remove it") }()
	shown := make([]byte, len("remove it? [y/N] "))
	if _, err := io.ReadFull(person, shown); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-asked; exit.StatusOf(err) != exit.Usage {
		t.Errorf("%v after %q", err, shown)
	}
	if _, err := person.WriteString("\n"); err != nil { // which ends the read
		t.Fatal(err)
	}
}

// All of standard input is read, also by its parts.
func TestInputIsReadWhole(t *testing.T) {
	text := strings.Repeat("line\n", 100_000)
	data, err := io.ReadAll(Input(t.Context(), strings.NewReader(text)))
	if err != nil || !bytes.Equal(data, []byte(text)) {
		t.Errorf("%d bytes of %d: %v", len(data), len(text), err)
	}
}
