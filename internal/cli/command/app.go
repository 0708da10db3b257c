package command

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

// App is what a command works with.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Flags          settings.Flags
	Form           output.Form
	// Wide does not cut lines to the width of the terminal, NoHeaders leaves out the head of tables.
	Wide, NoHeaders bool
	Connection      settings.Connection
	Now             func() time.Time
	// Color is auto, always or never.
	Color string
	// Running is set when the command line was understood: an error before it is one of usage.
	Running bool
	// Status is that of a command of another package.
	Status int
	// together collects results for programs; nil where each is written at once.
	together *[]any
}

// Dial connects; commands that need no API do not call it.
func (a *App) Dial() (*client.Client, error) {
	c, err := a.Connection.Dial()
	if err != nil {
		return nil, err
	}
	if a.Connection.Exposes() {
		a.Sayf("warning: %s is not https: everybody on the way can read the credentials", a.Connection.Endpoint)
	}
	c.OnMissing(func(why string) { a.Sayf("not in this answer: %s", why) })
	return c, nil
}

// Print writes a result: v as JSON or YAML, or what table makes of it.
func (a *App) Print(v any, table func() *output.Table) error {
	if a.Form == output.FormTable || a.Form == output.FormName {
		return a.PrintTable(table())
	}
	return a.Encode(v)
}

// PrintTable writes a table, or its first column. On a terminal its lines are not wrapped.
func (a *App) PrintTable(t *output.Table) error {
	if a.Form == output.FormName {
		for _, name := range t.Names() {
			if _, err := fmt.Fprintln(a.Stdout, name); err != nil {
				return err
			}
		}
		return nil
	}
	if a.NoHeaders {
		t = t.WithoutHead()
	}
	return t.Write(a.Stdout, a.Style())
}

// Together runs what prints the results of n things. For programs those of several are written as
// one list when it has ended, also by an error: one after the other they would be no JSON and no YAML.
func (a *App) Together(n int, run func(*App) error) error {
	if n == 1 || a.together != nil || a.Form == output.FormTable || a.Form == output.FormName {
		return run(a)
	}
	collecting := *a
	collecting.together = &[]any{}
	err := run(&collecting)
	if results := *collecting.together; err == nil || len(results) > 0 {
		err = cmp.Or(err, a.Encode(results))
	}
	return err
}

// Encode writes a result for programs.
func (a *App) Encode(v any) error {
	if a.together != nil {
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			for i := range list.Len() {
				*a.together = append(*a.together, list.Index(i).Interface())
			}
		} else {
			*a.together = append(*a.together, v)
		}
		return nil
	}
	if a.Form == output.FormFDL {
		services, ok := v.([]*oscar.Service)
		if !ok {
			return exit.Usagef("-o fdl is for services: oscarfed get services NAME -o fdl")
		}
		return fdl.Write(a.Stdout, services)
	}
	return output.Encode(a.Stdout, a.Form, v)
}

// Sayf writes a line that is no result: progress, a warning.
func (a *App) Sayf(format string, args ...any) {
	fmt.Fprintln(a.Stderr, output.Printable(fmt.Sprintf(format, args...)))
}

// SayLimited says that a list of the newest n things is as long as --limit allows: it looked whole.
func (a *App) SayLimited(n, limit int) {
	if n >= limit && a.Form == output.FormTable {
		a.Sayf("these are the newest %d, and there may be more: --limit N lists more", n)
	}
}

// OfConfiguration marks commands that change the configuration file, which may be wrong as it is.
const OfConfiguration = "configuration"
