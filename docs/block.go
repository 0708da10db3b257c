package docs

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.md
var pages embed.FS

// Block is a fenced block of a page.
type Block struct {
	// Heading is the text of the last heading above it, Language what stands behind the fence that opens it.
	Heading, Language string
	Text              string
}

// Blocks are the fenced blocks of a page below a heading, up to the next heading of any level, in their order; below
// "" those of the whole page. A page or a heading that is not there is an error.
func Blocks(page, heading string) ([]Block, error) {
	text, err := pages.ReadFile(page)
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	var (
		out     []Block
		at      string
		found   = heading == ""
		inside  bool
		current Block
	)
	for line := range strings.Lines(string(text)) {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && inside:
			if heading == "" || heading == at {
				out = append(out, current)
			}
			inside = false
		case fence:
			current, inside = Block{Heading: at, Language: strings.TrimSpace(language)}, true
		case inside:
			current.Text += line
		case strings.HasPrefix(line, "#"):
			at = strings.TrimSpace(strings.TrimLeft(line, "#"))
			found = found || at == heading
		}
	}
	if inside {
		return nil, fmt.Errorf("docs: the last block of %s has no end", page)
	}
	if !found {
		return nil, fmt.Errorf("docs: %s has no heading %q", page, heading)
	}
	return out, nil
}
