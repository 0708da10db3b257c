package record

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Strange names the first word in an order or decision of the control plane that this
// version does not know, as field "word"; empty when it knows all. A newer version wrote
// such a record, and what it asks for is not known here: it is left as it is. Words of
// reasons and messages are for people, and are not looked at.
func Strange(rec any) string {
	v := reflect.ValueOf(rec)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return ""
	}
	return strangeIn(v)
}

func strangeIn(v reflect.Value) string {
	for _, f := range wordFieldsOf(v.Type()) {
		value := v.Field(f.index)
		if f.record {
			if value.IsNil() {
				continue
			}
			if word := strangeIn(value.Elem()); word != "" {
				return f.name + "." + word
			}
			continue
		}
		if value.Len() == 0 {
			continue
		}
		understood := f.words == nil && isWord(value.Interface()) || slices.Contains(f.words, value.String())
		if !understood {
			return fmt.Sprintf("%s %q", f.name, value.String())
		}
	}
	return ""
}

// wordField is a field of a record in which a word can stand that decides something.
type wordField struct {
	index int
	// name is that in JSON, and record says that it points to a record with such fields.
	name   string
	record bool
	// words are those that are known; nil when isWord knows them.
	words []string
}

// wordFields has the fields of each type that was looked at: each record that is read is looked at.
var wordFields sync.Map //nolint:gochecknoglobals // a cache of what the types say

// wordFieldsOf are the fields of a type that Strange looks at.
func wordFieldsOf(t reflect.Type) []wordField {
	if known, ok := wordFields.Load(t); ok {
		return known.([]wordField) //nolint:forcetypeassert // it has no others
	}
	var out []wordField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		words, listed := f.Tag.Lookup("words")
		switch {
		case f.Type.Kind() == reflect.Pointer && structOf(f.Type) != nil:
			out = append(out, wordField{index: i, name: name, record: true})
		case listed && f.Type.Kind() == reflect.String:
			out = append(out, wordField{index: i, name: name, words: strings.Split(words, ",")})
		case f.Type.Kind() == reflect.String && f.Type != reflect.TypeFor[string]():
			out = append(out, wordField{index: i, name: name})
		}
	}
	wordFields.Store(t, out)
	return out
}

// isWord says whether a word of a type that decides something is one of its constants.
// Of other types it knows all.
func isWord(word any) bool {
	switch w := word.(type) {
	case Intent:
		return w == IntentPrepare || w == IntentApply || w == IntentDelete
	case Phase:
		switch w {
		case PhasePreparing, PhaseApplying, PhaseReady, PhaseAborted, PhaseRollingBack, PhaseRolledBack, PhaseDeleting, PhaseChanging, PhaseDegraded,
			PhasePrepared, PhaseRefused, PhaseFailed, PhaseDrifted, PhaseHeld, PhaseWedged, PhaseDeleted, PhasePending, PhaseUnreachable:
			return true
		}
		return false
	case ClusterState:
		switch w {
		case ClusterActive, ClusterPaused, ClusterCordoned, ClusterRemoving, ClusterRevoked, ClusterRemoved:
			return true
		}
		return false
	case JobState:
		switch w {
		case JobQueued, JobAssigned, JobClaimed, JobSubmitting, JobSubmitted, JobRunning, JobRefused, JobUncertain,
			JobSucceeded, JobFailed, JobCancelled, JobVanished, JobParked, JobReturned:
			return true
		}
		return false
	case HoldOrder:
		return w == HoldKeep || w == HoldRevoke || w == HoldForget
	case OfferWord:
		return w == OfferFreeze || w == OfferRelease || w == OfferRestore
	}
	return true
}
