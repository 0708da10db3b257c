package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report is what the run prints: markdown for the page, progress beside it.
type report struct {
	w, progress io.Writer
	// curves are the costs that were measured at several sizes, by name.
	curves map[string]*curve
}

func (r *report) linef(format string, args ...any) { fmt.Fprintf(r.w, format+"\n", args...) }

// sayf shows the progress.
func (r *report) sayf(format string, args ...any) {
	fmt.Fprintf(r.progress, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func (r *report) heading(text string) { r.linef("\n### %s\n", text) }

// table prints rows under column heads.
func (r *report) table(heads []string, rows [][]string) {
	r.linef("| %s |", strings.Join(heads, " | "))
	r.linef("|%s", strings.Repeat("---|", len(heads)))
	for _, row := range rows {
		r.linef("| %s |", strings.Join(row, " | "))
	}
}

// samples are times of the same thing.
type samples []time.Duration

// p is a percentile by the nearest rank; of few samples the 99th is the worst.
func (s samples) p(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
}

// both are the median and the 99th percentile.
func (s samples) both() string { return ms(s.p(50)) + " / " + ms(s.p(99)) }

// over is the ratio of medians and of 99th percentiles to a floor.
func (s samples) over(floor samples) string {
	return ratio(s.p(50), floor.p(50)) + " / " + ratio(s.p(99), floor.p(99))
}

func ratio(a, b time.Duration) string {
	if b <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", float64(a)/float64(b))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func kib(bytes int64) string { return fmt.Sprintf("%.0f KiB", float64(bytes)/(1<<10)) }

func percent(share float64) string { return fmt.Sprintf("%.2f %%", share*100) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
