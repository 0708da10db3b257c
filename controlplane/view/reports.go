package view

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// MaxReportMessage in bytes is how much of a sentence of a syncer is kept and shown.
	// Ours say less; a hostile one could fill every answer and record.
	MaxReportMessage = 4 << 10
	// MaxReportWord bounds reasons, states and names of operations in bytes, and
	// maxReportText every other text: identifiers, fingerprints, URLs.
	MaxReportWord = 64
	maxReportText = 4 << 10
	// maxReportList is how many entries of a list are kept. A service has 2200 buckets at most.
	maxReportList = 2 * oscar.MaxPrivateBuckets
	// listsPerByte is how many bytes the lists of a report may take in memory for each byte of it. Ours take less than
	// three. Lists of empty objects would take twenty and more, and all that a cluster may write would fill the memory.
	listsPerByte = 4
	// longerAtMost is how many times longer a report can be when it is written again: a byte that is no text takes three
	// then, and a field that was left out is there.
	longerAtMost = 8
)

// maxReports bounds what syncers write, by the kind of its record, in bytes. Each is far
// more than a syncer of ours ever writes.
var maxReports = map[reflect.Type]int{ //nolint:gochecknoglobals // a constant
	reflect.TypeFor[record.Session]():         4 << 10,
	reflect.TypeFor[record.Observed]():        512 << 10, // 200 buckets, and one for each of 1000 users
	reflect.TypeFor[record.ObservedCluster](): 512 << 10,
	reflect.TypeFor[record.Capacity]():        256 << 10,
	reflect.TypeFor[record.JobReport]():       16 << 10,
	reflect.TypeFor[record.Offer]():           16 << 10,
	reflect.TypeFor[record.Holding]():         32 << 10,
	reflect.TypeFor[record.Want]():            4 << 10,
	reflect.TypeFor[record.Grant]():           128 << 10, // the control plane's, too, are made of what holders write
	reflect.TypeFor[record.Reading]():         16 << 10,
}

// sentences are the fields of reports that are shortened. Any other field that is too long
// makes the whole report invalid.
var sentences = map[string]bool{"Message": true, "Why": true, "Unrevoked": true, "Outcome": true} //nolint:gochecknoglobals // a constant

// envelopes are the fields of reports that only the size of the whole record bounds.
var envelopes = map[string]bool{"Access": true} //nolint:gochecknoglobals // a constant

// withinBounds bounds every text and list of a report, so that what is copied into other records
// fits there, and that it takes little memory. raw is how many bytes the record has.
func withinBounds(report any, raw int) error {
	v := reflect.ValueOf(report).Elem()
	most, ok := maxReports[v.Type()]
	switch {
	case !ok:
		return nil
	case raw > most:
		return fmt.Errorf("it has %d bytes, and a syncer writes %d at most", raw, most)
	}
	lists := 0
	if err := bound("", v, &lists); err != nil {
		return err
	}
	if lists > listsPerByte*raw {
		return fmt.Errorf("it has %d bytes, and its lists take %d in memory", raw, lists)
	}
	if raw <= most/longerAtMost {
		return nil
	}
	again, err := record.Encode(report)
	if err == nil && len(again) > most {
		err = fmt.Errorf("it has %d bytes when it is written again, and a syncer writes %d at most", len(again), most)
	}
	return err
}

// bound bounds a value and all in it, and adds to lists what its lists take in memory.
func bound(name string, v reflect.Value, lists *int) error {
	switch v.Kind() {
	case reflect.String:
		if sentences[name] {
			v.SetString(bounded(v.String(), MaxReportMessage))
			return nil
		}
		if envelopes[name] {
			return nil
		}
		most := maxReportText
		if name == "Operation" || v.Type() != reflect.TypeFor[string]() {
			most = MaxReportWord
		}
		if v.Len() > most {
			return fmt.Errorf("%s has %d bytes, and %d are possible", name, v.Len(), most)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return bound(name, v.Elem(), lists)
		}
	case reflect.Slice:
		// Users of its OSCAR may have chosen this text: the rest of the report stays valid.
		*lists += v.Len() * int(v.Type().Elem().Size())
		kept := v.Slice(0, 0)
		for i := range v.Len() {
			if kept.Len() < maxReportList && bound(name, v.Index(i), lists) == nil {
				kept = reflect.Append(kept, v.Index(i))
			}
		}
		v.Set(kept)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Type != reflect.TypeFor[record.Time]() {
				if err := bound(f.Name, v.Field(i), lists); err != nil {
					return err
				}
			}
		}
	default:
	}
	return nil
}

// bounded cuts a text of a syncer so that it takes at most n bytes in a record. Control
// characters become spaces, since one would take six bytes.
func bounded(text string, n int) string {
	const more = "..."
	size, end, rest, clean := 0, 0, "", true
	for i, r := range text {
		if size <= n-len(more) {
			end = i
		}
		p := printable(r)
		clean = clean && p == r
		switch r = p; r {
		case '\n', '\t', '"', '\\':
			size += 2
		default:
			size += utf8.RuneLen(r)
		}
		if size > n {
			text, rest = text[:end], more
			break
		}
	}
	if !clean {
		text = strings.Map(printable, text)
	}
	return text + rest
}

// Sentence is a text around a sentence of a syncer, as long as that may be.
func Sentence(text string) string { return bounded(text, MaxReportMessage) }

// printable is the rune, or a space in place of one that JSON writes with six bytes.
func printable(r rune) rune {
	switch {
	case r == '\n', r == '\t':
		return r
	case r < ' ', r == 0x7f, r == utf8.RuneError, r == '\u2028', r == '\u2029':
		return ' '
	}
	return r
}

// SharedSentences is the space in bytes that a federation's record has for the sentences of
// syncers. Each replica has two: a cause, and the outcome of its rollback.
const SharedSentences = 128 << 10

// BoundSentences cuts the sentences that syncers reported about the members of a federation to
// their share of its record, so that the outcome of a creation can always be written. Members of
// other federations that are written with it are counted in also.
func BoundSentences(members []record.Member, also int) {
	share := min(MaxReportMessage, SharedSentences/2/max(len(members)+also, 1))
	for i := range members {
		if f := members[i].Cause; f != nil {
			cut := *f
			cut.Message = bounded(f.Message, share)
			members[i].Cause = &cut
		}
		if r := members[i].Rollback; r != nil {
			cut := *r
			cut.Message = bounded(r.Message, share)
			members[i].Rollback = &cut
		}
	}
}

// setObserved keeps a report. An implausible one counts as none: it decides nothing, and no
// answer shows it.
func (v *View) setObserved(n *Node, service string, kv store.KV, exists bool) {
	delete(n.Observed.m, service)
	o, ok := decode[record.Observed](v, kv, exists)
	if !ok {
		return
	}
	if err := plausible(o); err != nil {
		v.news.Corrupt = append(v.news.Corrupt, &store.CorruptError{Key: kv.Key, Err: err})
		return
	}
	n.Observed.m[service] = Versioned[record.Observed]{Rec: o, Rev: kv.ModRevision}
}

func plausible(o *record.Observed) error {
	phases := []record.Phase{
		record.PhasePrepared, record.PhaseRefused, record.PhaseReady, record.PhaseFailed, record.PhaseDrifted,
		record.PhaseHeld, record.PhaseWedged, record.PhaseDeleted, record.PhaseApplying, record.PhaseDeleting, record.PhasePending,
	}
	switch {
	case !slices.Contains(phases, o.Phase):
		return fmt.Errorf("no syncer reports phase %q", o.Phase)
	case o.ObservedGeneration < 0 || o.DesiredRevision < 0 || o.AppliedGeneration < 0:
		return fmt.Errorf("generation %d and revision %d cannot be negative", o.ObservedGeneration, o.DesiredRevision)
	case o.Vote != nil && o.Vote.Answer != record.VoteYes && o.Vote.Answer != record.VoteNo:
		return fmt.Errorf("a vote is yes or no, and not %q", o.Vote.Answer)
	case o.Vote != nil && o.Vote.DelayS < 0:
		return fmt.Errorf("a write queue cannot be %d s long", o.Vote.DelayS)
	}
	return nil
}

// Shorten shortens a text to at most n bytes, between two characters.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
