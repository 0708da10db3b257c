package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/test/history"
)

// state is what the histories of a campaign came to, over all its runs.
type state struct {
	// Done are the seeds that were played.
	Done spans `json:"done"`
	// Broken are the failures, in the order in which they were seen.
	Broken []failure `json:"broken"`

	Histories   int           `json:"histories"`
	Revisions   int64         `json:"revisions"`
	Jobs        int           `json:"jobs"`
	ClusterTime time.Duration `json:"cluster_time"`
}

// failure is a history that failed.
type failure struct {
	Seed    uint64  `json:"seed"`
	Verdict verdict `json:"verdict"`
	// Lines are the first ones that say why.
	Lines []string `json:"lines"`
}

// add counts a history.
func (s *state) add(o history.Outcome) {
	s.Done = s.Done.with(o.Seed)
	s.Histories++
	s.Revisions += o.Revisions
	s.Jobs += o.Jobs
	s.ClusterTime += o.Virtual * time.Duration(o.Clusters)
}

// clusterDays is the virtual time of all clusters.
func (s *state) clusterDays() float64 { return s.ClusterTime.Hours() / 24 }

// readState is an empty one where there is no file.
func readState(path string) (s state, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// write replaces the file as a whole: a campaign that is killed leaves the old one or the new one.
func (s *state) write(path string) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// span is a range of seeds, both ends in it.
type span struct{ From, To uint64 }

// spans are in their order, with at least one seed between two of them.
type spans []span

func (s spans) has(seed uint64) bool {
	return slices.ContainsFunc(s, func(r span) bool { return r.From <= seed && seed <= r.To })
}

// with is s and one more seed.
func (s spans) with(seed uint64) spans {
	all := append(slices.Clone(s), span{seed, seed})
	slices.SortFunc(all, func(a, b span) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	var out spans
	for _, r := range all {
		if last := len(out) - 1; last >= 0 && r.From <= out[last].To+1 {
			out[last].To = max(out[last].To, r.To)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// parseSeeds reads a range as 1-100000, or one seed. All seeds are meant by nothing.
func parseSeeds(text string) (span, error) {
	if text == "" {
		return span{1, math.MaxUint64 - 1}, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 63)
	last, err2 := strconv.ParseUint(to, 10, 63)
	if err := errors.Join(err, err2); err != nil {
		return span{}, fmt.Errorf("seeds are a range as 1-100000, or one number: %w", err)
	}
	if first == 0 || last < first {
		return span{}, fmt.Errorf("%q is no range of seeds: the first is 1", text)
	}
	return span{first, last}, nil
}
