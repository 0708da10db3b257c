package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestAScriptIsNotAsked: neither is a person who has said yes.
func TestAScriptIsNotAsked(t *testing.T) {
	var said bytes.Buffer
	script := &App{Stdin: strings.NewReader("n\n"), Stderr: &said}
	if err := (Asking{}).Ask(script, "remove it"); err != nil || said.Len() > 0 {
		t.Errorf("%v, after %q", err, &said)
	}
	device, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close() //nolint:errcheck // nothing is written
	t.Setenv("TERM", "xterm")
	terminal := &App{Stdin: device, Stderr: device} // a character device, which answers nothing
	if err := (Asking{Yes: true}).Ask(terminal, "remove it"); err != nil {
		t.Error(err)
	}
	if err := (Asking{}).Ask(terminal, "remove it"); err == nil || err.Error() != "nothing is changed" {
		t.Errorf("without an answer: %v", err)
	}
}
