package fdl

import (
	"regexp"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/docs"
)

// Key is a key of a definition, as docs/fdl.md tells of it.
type Key struct {
	Path string `json:"path"`
	// Type says in words what its value is.
	Type string `json:"type"`
	// Default is what holds without it, or "required"; empty when the page does not say.
	Default string `json:"default,omitempty"`
	// Meaning is what the page says; empty for what OSCAR alone reads.
	Meaning string `json:"meaning,omitempty"`
}

// lists are what stands before the lists of keys in the page, and where their keys are in a
// definition.
var lists = []struct{ after, below string }{ //nolint:gochecknoglobals // a constant
	{"## The service\n", ""},
	{"Keys of `volume`:", "volume."},
	{"Keys of `federation`", "federation."},
	{"Keys of a member:", "federation.members."},
}

// Keys lists every key that is known, with what the page says of it.
func Keys() []Key {
	told := documented(docs.FDL)
	var out []Key
	for _, k := range oscar.Keys() {
		key := told[k.Path]
		key.Path, key.Type = k.Path, k.Type
		out = append(out, key)
	}
	return out
}

// documented reads the lists of the page, by path.
func documented(page string) map[string]Key {
	told := map[string]Key{}
	for _, list := range lists {
		_, after, _ := strings.Cut(page, list.after)
		for line := range items(after) {
			m := item.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			for path := range strings.SplitSeq(m[1], ", ") {
				path = list.below + strings.Trim(path, "`")
				told[path] = Key{Default: plain(m[2]), Meaning: plain(m[3])}
			}
		}
	}
	return told
}

var (
	item = regexp.MustCompile("^((?:`[^`]+`(?:, )?)+)(?: \\(([^)]*)\\))?: (.*)$")
	link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// items yields the items of the first list of a text, each on one line.
func items(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		_, text, _ = strings.Cut(text, "\n- ")
		list, _, _ := strings.Cut(text, "\n\n")
		for one := range strings.SplitSeq(list, "\n- ") {
			if !yield(strings.Join(strings.Fields(one), " ")) {
				return
			}
		}
	}
}

// plain takes links and marks of Markdown away.
func plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}

// Below lists the keys that stand directly below a path; below "" those of a service.
func Below(path string, all []Key) []Key {
	if path != "" {
		path += "."
	}
	return slices.DeleteFunc(slices.Clone(all), func(k Key) bool {
		rest, below := strings.CutPrefix(k.Path, path)
		return !below || strings.Contains(rest, ".")
	})
}
