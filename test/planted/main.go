package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Limits of one defect.
const (
	historyLimit = 5 * time.Minute
	dirMode      = 0o755
	fileMode     = 0o644
)

func main() {
	seeds := flag.Int("seeds", 200, "play so many histories for each defect")
	limit := flag.Duration("time", 10*time.Minute, "play for so long for each defect")
	only := flag.String("only", "", "a regular expression of the defects' names")
	work := flag.String("work", "build/planted", "a folder for what is built")
	flag.Parse()
	if err := run(os.Stdout, *seeds, *limit, *only, *work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, seeds int, limit time.Duration, only, work string) error {
	name, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, dirMode); err != nil {
		return err
	}
	fmt.Fprint(out, "| Defect | Caught by seed | Histories | Seconds | What it said |\n|---|---|---|---|---|\n")
	missed := 0
	for _, d := range defects() {
		if !name.MatchString(d.name) {
			continue
		}
		began := time.Now()
		binary, err := build(d, work)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		played := time.Now()
		caught := play(binary, seeds, played.Add(limit))
		seconds := time.Since(played).Seconds()
		if caught.seed == 0 {
			missed++
		}
		fmt.Fprintf(out, "| %s | %s | %d | %.0f | %s |\n", d.name, caught, caught.histories, seconds, caught.said)
		fmt.Fprintf(os.Stderr, "%s: built in %.0f s\n", d.name, played.Sub(began).Seconds())
	}
	if missed > 0 {
		return fmt.Errorf("%d defects were not caught", missed)
	}
	return nil
}

// plant gives the text of the defect's file with the defect in it.
func plant(d defect, text []byte) ([]byte, error) {
	if n := bytes.Count(text, []byte(d.old)); n != 1 {
		return nil, fmt.Errorf("%s has the text %d times: %q", d.file, n, d.old)
	}
	return bytes.Replace(text, []byte(d.old), []byte(d.new), 1), nil
}

// build builds the histories with a defect.
func build(d defect, work string) (binary string, err error) {
	text, err := os.ReadFile(d.file)
	if err != nil {
		return "", err
	}
	if text, err = plant(d, text); err != nil {
		return "", err
	}
	work, err = filepath.Abs(work)
	if err != nil {
		return "", err
	}
	product, err := filepath.Abs(d.file)
	if err != nil {
		return "", err
	}
	planted, overlay := filepath.Join(work, "planted.txt"), filepath.Join(work, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {product: planted}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(planted, text, fileMode), os.WriteFile(overlay, list, fileMode)); err != nil {
		return "", err
	}
	binary = filepath.Join(work, "history.test")
	said, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./test/history").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return binary, nil
}

// catch is the first history that fails.
type catch struct {
	seed, histories int
	said            string
}

func (c catch) String() string {
	if c.seed == 0 {
		return "no"
	}
	return strconv.Itoa(c.seed)
}

// play plays histories until one fails.
func play(binary string, seeds int, until time.Time) catch {
	var c catch
	for seed := 1; seed <= seeds && time.Now().Before(until); seed++ {
		c.histories++
		said, err := history(binary, seed)
		if err != nil {
			c.seed, c.said = seed, said
			return c
		}
	}
	return c
}

// history plays one, and gives the first thing that it complained of.
func history(binary string, seed int) (said string, err error) {
	cmd := exec.Command(binary, "-test.run", "^TestHistories$", "-seed", strconv.Itoa(seed), "-test.timeout", historyLimit.String())
	cmd.Dir = "test/history"
	out, err := cmd.CombinedOutput()
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
