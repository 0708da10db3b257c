package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// A script is not asked, nor is who gives no input.
func TestAScriptIsNotAsked(t *testing.T) {
	var said bytes.Buffer
	script := &App{Stdin: strings.NewReader("n\n"), Stderr: &said}
	if err := (Asking{}).Ask(script, "remove it"); err != nil || said.Len() > 0 {
		t.Errorf("%v, after %q", err, &said)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close() //nolint:errcheck // nothing is written
	if err := (Asking{}).Ask(&App{Stdin: null, Stderr: null}, "remove it"); err != nil {
		t.Error(err)
	}
}

func TestAPersonIsAsked(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for answer, want := range map[string]string{"y\n": "", " YES \n": "", "n\n": "nothing is changed", "\n": "nothing is changed", "\x04": "nothing is changed"} {
		person, app := terminal(t)
		if _, err := person.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := (Asking{}).Ask(app, "remove it"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q; want %q", answer, got, want)
		}
		if err := (Asking{Yes: true}).Ask(app, "remove it"); err != nil {
			t.Errorf("with --yes: %v", err)
		}
	}
}

// Results are cut and coloured for a terminal alone, and as its user wants.
func TestATerminalHasAStyle(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("COLUMNS", "")
	t.Setenv("NO_COLOR", "")
	_, app := terminal(t)
	for _, tt := range []struct {
		name  string
		alter func(*App)
		want  output.Style
	}{
		{"a terminal", func(*App) {}, output.Style{Width: 80, Colour: true}},
		{"wide", func(a *App) { a.Wide = true }, output.Style{Colour: true}},
		{"no colours", func(a *App) { a.Color = ColorNever }, output.Style{Width: 80}},
		{"NO_COLOR", func(*App) { t.Setenv("NO_COLOR", "1") }, output.Style{Width: 80}},
		{"NO_COLOR, and they are wanted", func(a *App) { a.Color = ColorAlways }, output.Style{Width: 80, Colour: true}},
		{"a program", func(a *App) { a.Stdout = &bytes.Buffer{} }, output.Style{}},
		{"a program that wants colours", func(a *App) { a.Stdout, a.Color = &bytes.Buffer{}, ColorAlways }, output.Style{Colour: true}},
		{"a terminal that can nothing", func(*App) { t.Setenv("TERM", "dumb") }, output.Style{}},
	} {
		a := *app
		tt.alter(&a)
		if got := a.Style(); got != tt.want {
			t.Errorf("%s: %+v; want %+v", tt.name, got, tt.want)
		}
	}
}

// terminal is a command on a terminal of 80 columns, and the person at it.
func terminal(t *testing.T) (person *os.File, app *App) {
	t.Helper()
	person, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tty.Close()
		_ = person.Close()
	})
	if err := pty.Setsize(person, &pty.Winsize{Rows: 25, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	return person, &App{Stdin: tty, Stdout: tty, Stderr: tty, Color: ColorAuto}
}
