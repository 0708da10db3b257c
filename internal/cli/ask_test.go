package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestAScriptIsNotAsked: neither is a person who has said yes.
func TestAScriptIsNotAsked(t *testing.T) {
	var said bytes.Buffer
	script := &app{stdin: strings.NewReader("n\n"), stderr: &said}
	if err := (asking{}).ask(script, "remove it"); err != nil || said.Len() > 0 {
		t.Errorf("%v, after %q", err, &said)
	}
	device, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close() //nolint:errcheck // nothing is written
	t.Setenv("TERM", "xterm")
	terminal := &app{stdin: device, stderr: device} // a character device, which answers nothing
	if err := (asking{Yes: true}).ask(terminal, "remove it"); err != nil {
		t.Error(err)
	}
	if err := (asking{}).ask(terminal, "remove it"); err == nil || err.Error() != "nothing is changed" {
		t.Errorf("without an answer: %v", err)
	}
}
