package docs_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/boot"
)

// programs are the commands of all programs, by their whole names, with their flags. A name that only has others below it
// has none of its own.
type programs map[string]map[string]bool

// add enters a command by its help.
func (p programs) add(name, help string, also map[string]bool) {
	flags := map[string]bool{"-h": true, "--help": true}
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:(-\w), )?(--[a-z0-9-]+)`).FindAllStringSubmatch(help, -1) {
		flags[m[1]], flags[m[2]] = true, true
	}
	for not := range named(help, regexp.MustCompile(`(--no-[a-z0-9-]+)`)) {
		flags[not] = true
	}
	maps.Copy(flags, also)
	p[name] = flags
	for i, r := range name {
		if _, known := p[name[:i]]; r == ' ' && !known {
			p[name[:i]] = nil
		}
	}
}

// allPrograms asks the programs.
func allPrograms(t *testing.T) programs {
	t.Helper()
	p := programs{}
	commands, global, ok := strings.Cut(manual(), "\n## Flags of all commands\n")
	if !ok {
		t.Fatal("no flags of all commands")
	}
	all := programs{}
	all.add("oscarfed", global, nil)
	for _, text := range strings.Split(commands, "\n## ")[1:] {
		name, help, _ := strings.Cut(text, "\n")
		p.add(name, help, all["oscarfed"])
	}
	// Those that cli.md leaves out.
	for _, name := range []string{"oscarfed", "oscarfed help", "oscarfed explain", "oscarfed completion", "oscarfed man"} {
		p[name] = all["oscarfed"]
	}
	type run func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int
	help := func(name string, do run, args ...string) string {
		var out bytes.Buffer
		if status := do(t.Context(), append(args, "--help"), strings.NewReader(""), &out, &out); status != 0 {
			t.Fatalf("%s --help ends with %d", name, status)
		}
		return out.String()
	}
	daemon := func(do func(context.Context, []string, io.Writer, io.Writer) int) run {
		return func(ctx context.Context, args []string, _ io.Reader, out, errs io.Writer) int {
			return do(ctx, args, out, errs)
		}
	}
	for name, do := range map[string]run{
		"oscarfed dev": boot.DevMain, "oscarfed backup": boot.BackupMain, "oscarfed restore": boot.RestoreMain,
		"oscar-controlplane": daemon(boot.ControlPlaneMain), "oscar-syncer": boot.SyncerMain,
	} {
		p.add(name, help(name, do), nil)
	}
	p.add("oscar-controlplane etcd-gateway", help("etcd-gateway", daemon(boot.ControlPlaneMain), "etcd-gateway"), nil)
	for name := range named(help("oscarfed etcd", boot.EtcdMain), regexp.MustCompile(`(?m)^  ([a-z-]+)  `)) {
		p.add("oscarfed etcd "+name, help(name, boot.EtcdMain, name), nil)
	}
	return p
}

// wrong says what is wrong with a command as a reader would type it; a word in capitals stands for any other.
func (p programs) wrong(words []string) string {
	name, at := words[0], 1
	for at < len(words) {
		if _, ok := p[name+" "+words[at]]; !ok {
			break
		}
		name += " " + words[at]
		at++
	}
	flags := p[name]
	if parent := flags == nil || name == "oscarfed"; parent {
		if at < len(words) && regexp.MustCompile(`^[a-z]`).MatchString(words[at]) {
			return "there is no command " + name + " " + words[at]
		}
		flags = map[string]bool{}
		for child, of := range p {
			if child == name || strings.HasPrefix(child, name+" ") {
				maps.Copy(flags, of)
			}
		}
	}
	for _, word := range words[at:] {
		flag, _, _ := strings.Cut(strings.Trim(word, "[]"), "=")
		if regexp.MustCompile(`^--?[a-z]`).MatchString(flag) && !flags[flag] {
			return name + " has no flag " + flag
		}
	}
	return ""
}

// code are the pieces of code of a page: its spans, and the lines of its blocks, continued ones as one.
func code(text string) (out []string) {
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			for k, span := range strings.Split(part, "`") {
				if k%2 == 1 {
					out = append(out, strings.Join(strings.Fields(span), " "))
				}
			}
			continue
		}
		out = append(out, strings.Split(strings.ReplaceAll(part, "\\\n", " "), "\n")...)
	}
	return out
}

// typed are the commands of our programs in a piece of code, as words. Words with | between them are several commands.
func typed(piece string) (out [][]string) {
	program := regexp.MustCompile(`(?:^|[|&;(]|\$ )\s*(?:[A-Z_]+=\S+ )*(?:\S*bin/)?(oscarfed|oscar-controlplane|oscar-syncer) ([^;&)#<>]*)`)
	for _, m := range program.FindAllStringSubmatch(piece, -1) {
		arguments, _, _ := strings.Cut(m[2], " | ")
		commands := [][]string{{m[1]}}
		for word := range strings.FieldsSeq(arguments) {
			var next [][]string
			for one := range strings.SplitSeq(strings.Trim(word, "\"'"), "|") {
				for _, before := range commands {
					next = append(next, append(slices.Clone(before), one))
				}
			}
			commands = next
		}
		out = append(out, commands...)
	}
	return out
}

// TestNamedCommandsExist: each command that a page names, with its flags, is one of the programs'.
func TestNamedCommandsExist(t *testing.T) {
	p, seen := allPrograms(t), 0
	sources(t, ".md", func(path, text string) {
		if filepath.Base(path) == "CHANGELOG.md" { // older versions had others
			sections := strings.SplitN(text, "\n## ", 3)
			text = sections[1]
		}
		for _, piece := range code(text) {
			for _, words := range typed(piece) {
				seen++
				if why := p.wrong(words); why != "" {
					t.Errorf("%s: `%s`: %s", path, strings.Join(words, " "), why)
				}
			}
		}
	})
	if seen < 200 {
		t.Errorf("only %d commands were found", seen)
	}
	for line, want := range map[string]string{
		"oscarfed get clusters -o json":           "",
		"oscarfed apply --no-wait -f a.yaml":      "",
		"oscarfed service stop|start SERVICE":     "",
		"oscarfed get KIND -w":                    "",
		"$ bin/oscarfed job submit a; oscarfed x": "there is no command oscarfed x",
		"eval \"$(oscarfed etcd roots --out a)\"": "there is no command oscarfed etcd roots",
		"oscarfed token rotates a":                "there is no command oscarfed token rotates",
		"oscarfed apply --out FILE":               "oscarfed apply has no flag --out",
		"oscarfed dev --cluster 3":                "oscarfed dev has no flag --cluster",
		"oscarfed get -x":                         "oscarfed get has no flag -x",
	} {
		var got string
		for _, words := range typed(line) {
			got += p.wrong(words)
		}
		if got != want {
			t.Errorf("%s: %q, not %q", line, got, want)
		}
	}
}
