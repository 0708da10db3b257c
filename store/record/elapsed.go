package record

import (
	"math"
	"slices"
	"sort"
)

// ElapsedKey holds the Elapsed of the store.
const ElapsedKey = Root + "elapsed"

// Elapsed is the time that all control planes agree on: for how many seconds they have
// run, as they measured it, and which revision was there after how many. It knows
// nothing of the time of day, and stands still while no control plane runs.
type Elapsed struct {
	V       int   `json:"v"`
	Seconds int64 `json:"seconds"`
	// Marks are in their order: the older, the further apart.
	Marks []TimeMark `json:"marks"`
}

// TimeMark says that the store was at a revision after so many seconds.
type TimeMark struct {
	Revision int64 `json:"revision" record:"id"`
	Seconds  int64 `json:"seconds"`
}

// Since is for how many seconds, at least, a revision has been there at the time of e;
// 0 when it is newer than all marks.
func (e *Elapsed) Since(revision int64) int64 {
	if e == nil {
		return 0
	}
	i := sort.Search(len(e.Marks), func(i int) bool { return e.Marks[i].Revision >= revision })
	if i == len(e.Marks) {
		return 0
	}
	return max(e.Seconds-e.Marks[i].Seconds, 0)
}

// Knows says whether e was kept already when a revision came to be.
func (e *Elapsed) Knows(revision int64) bool {
	return e != nil && len(e.Marks) > 0 && e.Marks[0].Revision < revision
}

// markShare is how far two marks may be apart, as a share of how long ago the newer was.
const markShare = 16

// Pass is e after it has reached so many seconds, at a revision. Marks that lie closer
// together than every, or than a sixteenth of their age, are left out, and so are those
// behind the first that is older than longest. All are in seconds.
func (e *Elapsed) Pass(seconds, revision, every, longest int64) *Elapsed {
	next := &Elapsed{V: Version, Seconds: seconds}
	var marks []TimeMark
	if e != nil {
		next.Seconds = max(next.Seconds, e.Seconds)
		marks = e.Marks
	}
	marks = append(slices.Clip(marks), TimeMark{revision, next.Seconds})
	// From the newest on; the first one is kept until a later one is old enough.
	newer := TimeMark{Seconds: math.MaxInt64}
	var kept []TimeMark
	for i, m := range slices.Backward(marks) {
		if len(kept) > 0 && next.Seconds-newer.Seconds > longest {
			break
		}
		if len(kept) > 0 && i > 0 && newer.Seconds-marks[i-1].Seconds <= max(every, (next.Seconds-newer.Seconds)/markShare) {
			continue
		}
		kept = append(kept, m)
		newer = m
	}
	slices.Reverse(kept)
	next.Marks = kept
	return next
}
