package services

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
)

// A MinIO that restarts while a bucket is deleted can make it again, empty, without tags and without the notification
// of its service. OSCAR refuses a POST that names a bucket that stands, and registers no notification for it in a PUT: the
// service that is made again gets no job from an upload there. OSCAR shows no notifications; it shows tags. It gives them
// to the buckets of a POST, so one that had them while the service stood, and has none after the service vanished, was made
// again. A PUT that was at work as the bucket went makes it again, too, with the notification and without tags: that looks
// the same.

// lookAtInputs notes which buckets of inputs stand, and were made again. standing is nil when it is not known which
// buckets stand.
func (s *Services) lookAtInputs(v *observation, standing answers.BucketSet) {
	if v.def == nil || !v.def.MakesBuckets() {
		return
	}
	inputs := v.def.InputBuckets()
	s.process.writes.change(v.name, func(n *recent) {
		if v.observed != nil {
			n.silent = definition.Union(n.silent, v.observed.SilentInputs)
		}
		n.silent = slices.DeleteFunc(n.silent, func(name string) bool {
			b, stands := standing[name]
			return !slices.Contains(inputs, name) || standing != nil && (!stands || b.Tagged())
		})
		for _, name := range inputs {
			switch b, stands := standing[name]; {
			case !stands:
			case v.local.whose == noService && !b.Tagged() && slices.Contains(n.tagged, name):
				n.silent = definition.Union(n.silent, []string{name})
			case v.local.whose == ours && b.Tagged():
				n.tagged = definition.Union(n.tagged, []string{name})
			case v.local.whose == ours:
				n.tagged = slices.DeleteFunc(n.tagged, func(known string) bool { return known == name })
			}
		}
		v.local.silent = slices.Clone(n.silent)
	})
}

// tellSilent: the service is in place, and uploads may start no job of it.
func (s situation) tellSilent() decision {
	return decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonWebhookLost, message: fmt.Sprintf(
		"the bucket of its input (%s) was made again while the service was away: uploads there may start no job",
		strings.Join(s.local.silent, ", "))}
}
