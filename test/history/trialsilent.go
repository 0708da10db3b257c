package history

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

// silentTrials are those of a MinIO that makes the bucket again that somebody's DELETE has taken away: uploads there start
// no job.
func silentTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a bucket that MinIO makes again starts jobs when somebody has deleted it": (*trial).silenced,
		"a service whose bucket starts no jobs is changed, and deleted":            (*trial).silentInChange,
	}
}

// revived deletes the service at its OSCAR and, while MinIO restarts for that, has it restart for somebody's service.
func (t *trial) revived() error {
	t.player.objects.forget(t.cluster, t.name)
	gone := make(chan error, 1)
	go func() { gone <- t.directly(http.MethodDelete, "/system/services/"+t.name, nil) }()
	<-time.After(t.player.plan.Shape.Latency / 2)
	made := t.directly(http.MethodPost, "/system/services", []byte(foreignDefinition(t.name+"-besides", t.number)))
	return errors.Join(<-gone, made, t.toldSilent())
}

// toldSilent waits until the API says so of the replica.
func (t *trial) toldSilent() error {
	return errors.Join(t.await("its bucket is told to be silent", func() bool { return t.reason() == record.ReasonWebhookLost }), t.phase(record.PhaseDrifted))
}

// startsJob uploads an object, and demands that it starts a job, which ends then.
func (t *trial) startsJob() error {
	err := t.sim.Upload(t.name, "in/object")
	jobs := t.sim.Jobs(t.name)
	if len(jobs) != 1 {
		return errors.Join(err, fmt.Errorf("an upload starts %d jobs", len(jobs)))
	}
	return errors.Join(err, t.sim.SetJobStatus(t.name, jobs[0].Name, oscarsim.JobSucceeded))
}

// silenced restarts the syncer, too: its successor knows of the bucket by the last report.
func (t *trial) silenced() error {
	err := errors.Join(t.create(trialLate, nil), t.revived())
	if b, has := t.sim.Bucket(t.name); !has || slices.Contains(b.Notifies, t.name) || len(b.Objects) > 0 {
		err = errors.Join(err, fmt.Errorf("the bucket is %+v", b))
	}
	t.cluster.Kill()
	t.cluster.Start()
	<-time.After(trialLate)
	err = errors.Join(err, t.toldSilent(), t.directly(http.MethodDelete, "/system/buckets/"+t.name, nil), t.phase(record.PhaseReady), t.startsJob())
	return errors.Join(err, t.delete(), t.nowhere())
}

func (t *trial) silentInChange() error {
	err := errors.Join(t.create(trialLate, nil), t.revived(), t.changed("second"), t.toldSilent())
	return errors.Join(err, t.delete(), t.nowhere())
}
