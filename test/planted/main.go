package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/test/history"
)

// Limits of one defect.
const (
	// controls is how often what fails with a defect must pass without it.
	controls = 3
	// historyLimit ends a history that hangs, also on a machine that does much else.
	historyLimit = 10 * time.Minute
	dirMode      = 0o755
	fileMode     = 0o644
)

func main() {
	var o options
	flag.IntVar(&o.seeds, "seeds", 200, "play so many histories for each defect")
	flag.Uint64Var(&o.from, "from", 1, "begin with the history of this seed")
	flag.DurationVar(&o.limit, "time", 10*time.Minute, "play until so much time of the processors is used for each defect")
	flag.StringVar(&o.only, "only", "", "a regular expression of the defects' names")
	flag.StringVar(&o.work, "work", "build/planted", "a folder for what is built")
	flag.StringVar(&o.readme, "readme", "test/planted/README.md", "the page whose list is written anew; empty for none")
	flag.BoolVar(&o.open, "open", false, "play only those that the table does not show as caught")
	flag.Parse()
	if err := run(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	seeds              int
	from               uint64
	limit              time.Duration
	only, work, readme string
	open               bool
}

func run(out io.Writer, o options) error {
	name, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	if o.work, err = filepath.Abs(o.work); err != nil {
		return err
	}
	if err := os.MkdirAll(o.work, dirMode); err != nil {
		return err
	}
	began := time.Now()
	binary, err := build(o.work)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "built in %.0f s\n", time.Since(began).Seconds())
	missed, sick, sound := 0, map[string]bool{}, map[string]bool{}
	for i, d := range defects() {
		if !name.MatchString(d.name) || o.open && wasCaught(o.readme, d.name) {
			continue
		}
		p := &player{binary: binary, defect: number(i), meets: d.meets, scene: d.scene, sick: sick, sound: sound}
		caught := p.play(o.from, o.seeds, o.limit)
		caught.took = p.used
		if caught.by == "" {
			missed++
		}
		fmt.Fprintf(out, "%s: %s\n", d.name, caught)
		if o.readme == "" {
			continue
		}
		if err := writeResult(o.readme, d.name, caught); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d defects were not caught", missed)
	}
	return nil
}

// noDefect is the number with which the binary has none of them.
const noDefect = 0

// number is how the binary calls the defect at a place of the list.
func number(i int) int { return i + 1 }

// plant gives the texts of the defect's files with the defect in them.
func plant(d defect, root string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, e := range d.edits {
		if texts[e.file] == nil {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			texts[e.file] = text
		}
		if n := bytes.Count(texts[e.file], []byte(e.old)); n != 1 {
			return nil, fmt.Errorf("%s has the text %d times: %q", e.file, n, e.old)
		}
		texts[e.file] = bytes.Replace(texts[e.file], []byte(e.old), []byte(e.new), 1)
	}
	return texts, nil
}

// build builds the histories with all defects, of which the environment chooses one.
func build(work string) (binary string, err error) {
	variants := map[string]map[int][]byte{}
	for i, d := range defects() {
		texts, err := plant(d, ".")
		if err != nil {
			return "", fmt.Errorf("%s: %w", d.name, err)
		}
		for file, text := range texts {
			if variants[file] == nil {
				variants[file] = map[int][]byte{}
			}
			variants[file][number(i)] = text
		}
	}
	replace := map[string]string{}
	for file, of := range variants {
		original, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text, err := switched(file, original, of)
		if err != nil {
			return "", err
		}
		path, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(work, strings.ReplaceAll(file, "/", "_")+".txt")
		if err := os.WriteFile(replace[path], text, fileMode); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(overlay, list, fileMode); err != nil {
		return "", err
	}
	binary = filepath.Join(work, "history.test")
	said, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./test/history").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return binary, nil
}

// player is a binary with one of its defects.
type player struct {
	binary string
	defect int
	// meets says whether a history can meet the defect: the others are left out.
	meets func(history.Plan) bool
	// scene is the trial that is made first; empty for none.
	scene string
	// sick are the histories that fail without a defect, too, and sound those that do not.
	sick, sound map[string]bool
	// used is the time that the processors have worked for it.
	used time.Duration
}

// trials is the plan of all trials, which is played before the seeds.
const trials = "the trials"

// catch is the first history that fails.
type catch struct {
	// by is the seed that has failed, or trials; empty when none has.
	by        string
	histories int
	// took is the time of the processors that it needed: a busy machine is not seen in it.
	took time.Duration
	said string
}

func (c catch) String() string {
	if c.by == "" {
		return fmt.Sprintf("not in %d histories, %.0f s", c.histories, c.took.Seconds())
	}
	return fmt.Sprintf("by %s, %.0f s: %s", c.by, c.took.Seconds(), c.said)
}

// play plays the trials, and then histories, until something fails that does not fail without the
// defect.
func (p *player) play(from uint64, seeds int, limit time.Duration) catch {
	var c catch
	if p.scene != "" {
		if said, caught := p.fails(p.scene); caught {
			return catch{by: trials, histories: 1, said: said}
		}
	}
	if slices.ContainsFunc(history.AllTrials(), p.meets) {
		if said, caught := p.fails(trials); caught {
			return catch{by: trials, histories: 1, said: said}
		}
		c.histories++
	}
	for seed := from; seeds > 0 && p.used < limit; seed++ {
		name := strconv.FormatUint(seed, 10)
		if p.sick[name] || !p.meets(history.Draw(seed)) {
			continue
		}
		seeds--
		c.histories++
		if said, caught := p.fails(name); caught {
			c.by, c.said = name, said
			return c
		}
	}
	return c
}

// fails plays the history of a seed, the trials, or one of them, and says whether it fails, and not without the
// defect. It gives the first thing that the history complained of.
func (p *player) fails(name string) (said string, caught bool) {
	args := []string{"-test.run", "^TestHistories$", "-seed", name}
	switch name {
	case trials:
		args = []string{"-test.run", "^TestTrials$"}
	case p.scene:
		args = []string{"-test.run", "^TestTrials$", "-trial", "^" + regexp.QuoteMeta(name) + "$"}
	}
	said, err := p.run(p.defect, args...)
	if err == nil {
		return "", false
	}
	for range controls {
		if p.sound[name] {
			break
		}
		if _, err := p.run(noDefect, args...); err != nil {
			p.sick[name] = name != trials && name != p.scene // with another defect they are played again
			return "", false
		}
	}
	p.sound[name] = true
	return said, true
}

// run runs the binary.
func (p *player) run(defect int, args ...string) (said string, err error) {
	cmd := exec.Command(p.binary, append(args, "-test.timeout", historyLimit.String())...)
	cmd.Dir = "test/history"
	cmd.Env = history.Environ(fmt.Sprintf("%s=%d", variable, defect))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil {
		p.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err == nil {
		return "", nil
	}
	return complaint(out), err
}

// complaint is the first line of a failed test that is no step of the plan.
func complaint(out []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		at, said, ok := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"):
			return brief(line)
		case ok && strings.Contains(at, ".go:") && !strings.HasPrefix(said, "seed ") && !strings.HasPrefix(said, "promises checked"):
			return brief(said)
		}
	}
	return "?"
}

const longest = 110

func brief(s string) string {
	s = strings.ReplaceAll(s, "|", "/")
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	return s
}
