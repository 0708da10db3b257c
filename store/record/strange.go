package record

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	for f, value := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if value.Kind() == reflect.Pointer && !value.IsNil() && structOf(f.Type) != nil {
			if word := strangeIn(value.Elem()); word != "" {
				return name + "." + word
			}
		}
		if value.Kind() != reflect.String || value.Len() == 0 {
			continue
		}
		understood := isWord(value.Interface())
		if words, ok := f.Tag.Lookup("words"); ok {
			understood = slices.Contains(strings.Split(words, ","), value.String())
		}
		if !understood {
			return fmt.Sprintf("%s %q", name, value.String())
		}
	}
	return ""
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
