package e2e_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
)

// The recording's size: characters of a line, lines of the window, and bytes of the file.
const (
	recordingColumns = 100
	recordingLines   = 22
	recordingBytes   = 100 << 10
)

// recorded is one line of a recording, and the second at which it appears.
type recorded struct {
	text    string
	command bool
	at      float64
}

// timed gives each line of a session its time. A reader gets longer for more lines.
func timed(ran []console) (lines []recorded, seconds float64) {
	for _, c := range ran {
		seconds += 0.8
		prompt := "$ "
		for line := range strings.Lines(c.command) {
			for _, part := range wrap(prompt + strings.TrimRight(line, "\n")) {
				lines = append(lines, recorded{text: part, command: true, at: seconds})
			}
			prompt = ""
		}
		seconds += 0.7
		count := 0
		for line := range strings.Lines(c.output) {
			for _, part := range wrap(strings.TrimRight(line, " \r\n")) {
				lines = append(lines, recorded{text: part, at: seconds})
				count++
			}
		}
		seconds += 0.25 * float64(count)
	}
	return lines, seconds + 3
}

// wrap cuts a line as a terminal does.
func wrap(line string) []string {
	var out []string
	runes := []rune(line)
	for len(runes) > recordingColumns {
		out = append(out, string(runes[:recordingColumns]))
		runes = runes[recordingColumns:]
	}
	return append(out, string(runes))
}

// drawing is an SVG that plays a session again and again. It brings its own background, so that it reads
// in light and dark. A reader who wants no motion sees the end.
func drawing(ran []console) []byte {
	const line, width, height = 18, 876, recordingLines*18 + 24
	lines, seconds := timed(ran)
	percent := func(at float64) float64 { return 100 * at / seconds }
	var style, text strings.Builder
	shift, frames := 0, 0
	for i, l := range lines {
		class := "o"
		if l.command {
			class = "c"
		}
		if i == 0 || lines[i-1].at != l.at {
			frames++
			p := percent(l.at)
			fmt.Fprintf(&style, "@keyframes f%d{0%%,%.2f%%{opacity:0}%.2f%%,100%%{opacity:1}}.f%d{animation-name:f%d}\n", frames, p, p+0.01, frames, frames)
		}
		if l.text != "" {
			fmt.Fprintf(&text, "<text class=\"%s f%d\" x=\"14\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", class, frames, 26+i*line, html.EscapeString(l.text))
		}
	}
	style.WriteString("@keyframes scroll{0%")
	for i, l := range lines {
		if last := i+1 == len(lines) || lines[i+1].at != l.at; last && i >= recordingLines {
			fmt.Fprintf(&style, ",%.2f%%{transform:translateY(-%dpx)}", percent(l.at), shift)
			shift = (i + 1 - recordingLines) * line
			fmt.Fprintf(&style, "%.2f%%", percent(l.at)+0.01)
		}
	}
	fmt.Fprintf(&style, ",100%%{transform:translateY(-%dpx)}}\n", shift)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>oscarfed dev, apply, a job, a repair and a delete in a terminal</title>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;animation:%.1fs infinite}
.o{fill:#c9d1d9}.c{fill:#7ee787}
.s{animation:scroll %.1fs infinite;transform:translateY(-%dpx)}
%s@media (prefers-reduced-motion:reduce){text,.s{animation:none}}
</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117" stroke="#30363d"/>
<svg y="8" height="%d"><g class="s">
%s</g></svg>
</svg>
`, width, height, width, height, seconds, seconds, shift, style.String(), height-16, text.String())
}

// drawRecording writes the recording to the file RECORDING, if one is named. The one of README is held to the page: it
// has its commands, apart from those with values of a run.
func drawRecording(t *testing.T, ran []console) {
	t.Helper()
	const committed = "../../docs/ui/quickstart.svg"
	next := drawing(ran)
	if file := os.Getenv("RECORDING"); file != "" {
		if err := os.WriteFile(file, next, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	for _, picture := range [][]byte{old, next} {
		if err := xml.Unmarshal(picture, new(struct{})); err != nil || len(picture) > recordingBytes {
			t.Errorf("a recording of %d bytes: %v", len(picture), err)
		}
	}
	for _, c := range consoles(t, "quickstart.md") {
		first, _, _ := strings.Cut(c.command, "\n")
		if text := wrap("$ " + first)[0]; !changingText.MatchString(text) && !bytes.Contains(old, []byte(html.EscapeString(text))) {
			t.Errorf("the recording has no %q: make recording", text)
		}
	}
}
