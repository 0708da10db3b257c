package syncer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

func withSecrets(r *rig) func(*syncer.Config) {
	return func(c *syncer.Config) { c.Kube = world.Secrets{Of: func() *oscarsim.Sim { return r.sim }} }
}

func (r *rig) secretIs(p *replica) {
	r.t.Helper()
	if got, _ := r.sim.Secret(p.name); got["KEY"] != p.secret || len(got) != 1 {
		r.t.Errorf("the Secret is %q, want KEY %q", got, p.secret)
	}
}

// nothingLeft: and the name can be used again.
func (r *rig) nothingLeft(p *replica) {
	r.t.Helper()
	r.sim.Settle()
	_, service := r.sim.Service(p.name)
	_, secret := r.sim.Secret(p.name)
	if hook := r.sim.State().Webhooks[p.name]; service || secret || hook != "" {
		r.t.Errorf("left are service %t, Secret %t, webhook %q", service, secret, hook)
	}
	o := r.await(p, record.PhaseDeleted)
	r.forget(p)
	again := newReplica(p.name)
	again.left = o.BucketsMade
	again.secret = "new"
	r.makeReady(again)
	r.inPlace(again)
	r.secretIs(again)
}

// TestAnOSCARThatDiesBetweenASecretAndItsService: it makes the Secret first, and refuses the name
// from then on.
func TestAnOSCARThatDiesBetweenASecretAndItsService(t *testing.T) {
	begin := func(t *testing.T) (*rig, *replica) {
		r := newRig(t, oscarsim.Config{})
		r.start(withSecrets(r))
		p := newReplica("grayify")
		p.secret = "s3cret"
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		return r, p
	}
	t.Run("the POST is tried again", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseReady)
			r.inPlace(p)
			r.secretIs(p)
			r.equalCalls(p.name, "create", "create", "update")
		})
	})
	t.Run("it is rolled back", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.eventually("it was posted", func() bool { _, made := r.sim.Secret(p.name); return made })
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("it is rolled back, and dies again", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.eventually("it was posted", func() bool { _, made := r.sim.Secret(p.name); return made })
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrash, 2)
			r.fault(oscarsim.OpDelete, oscarsim.FaultCrashSecret, 2)
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("it is refused for its image", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.ask(http.MethodPut, "/system/config", `{"allowed_image_repositories":["only.example"]}`)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseFailed, because(record.ReasonCreateFailed))
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
			r.await(p, record.PhaseDeleted)
			r.ask(http.MethodPut, "/system/config", `{"allowed_image_repositories":[]}`)
			r.nothingLeft(p)
		})
	})
	inPlace := func(t *testing.T) (*rig, *replica) {
		r, p := begin(t)
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.fault(oscarsim.OpDelete, oscarsim.FaultCrashSecret, 1)
		return r, p
	}
	for name, c := range map[string]struct {
		fault string
		count int
		stays bool
	}{
		"in a DELETE":                            {},
		"in a DELETE, before an outage":          {oscarsim.Fault500, 8, false},
		"in a DELETE, before it breaks for ever": {oscarsim.Fault500, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p := inPlace(t)
				r.fault(oscarsim.OpCreate, c.fault, c.count)
				r.want(p, record.IntentDelete)
				o := r.await(p, record.PhaseDeleted)
				if o.SecretLeft != c.stays || strings.Contains(o.Message, "Secret is left") != c.stays {
					t.Errorf("told as %+v", o)
				}
				if !c.stays {
					r.nothingLeft(p)
				}
			})
		})
	}
	t.Run("in somebody's DELETE", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := inPlace(t)
			if status, err := r.tryAsk(http.MethodDelete, "/system/services/"+p.name, ""); err == nil {
				t.Errorf("answered %d", status)
			}
			r.await(p, record.PhaseDrifted)
			r.await(p, record.PhaseReady)
			r.inPlace(p)
			r.secretIs(p)
			r.notNoted(p)
		})
	})
	t.Run("in somebody's DELETE, which the release finds", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := inPlace(t)
			if status, err := r.tryAsk(http.MethodDelete, "/system/services/"+p.name, ""); err == nil {
				t.Errorf("answered %d", status)
			}
			r.want(p, record.IntentDelete, free)
			o := r.await(p, record.PhaseDeleted)
			if v, stands := r.sim.Service(p.name); stands || !o.SecretLeft {
				t.Errorf("there is %s; told as %+v", v.JSON, o)
			}
		})
	})
	t.Run("in somebody's DELETE, which the deletion finds", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := inPlace(t)
			if status, err := r.tryAsk(http.MethodDelete, "/system/services/"+p.name, ""); err == nil {
				t.Errorf("answered %d", status)
			}
			r.want(p, record.IntentDelete)
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
}

// notNoted: the write that could leave the Secret is over.
func (r *rig) notNoted(p *replica) {
	r.t.Helper()
	r.eventually("no note stays", func() bool { return r.observed(p.name).Bare == "" })
}

// restarts the syncer when the Secret stands alone.
func (r *rig) restartsBesideSecret(p *replica, stop func()) {
	r.t.Helper()
	r.eventually("the Secret is left", func() bool {
		_, service := r.sim.Service(p.name)
		_, secret := r.sim.Secret(p.name)
		return secret && !service
	})
	stop()
	r.start(withSecrets(r))
}

// TestASyncerThatIsStartedBesideALeftSecretKnowsIt: its predecessor has sent the write that left it.
func TestASyncerThatIsStartedBesideALeftSecretKnowsIt(t *testing.T) {
	begin := func(t *testing.T) (r *rig, p *replica, stop func()) {
		r = newRig(t, oscarsim.Config{})
		stop = r.start(withSecrets(r))
		p = newReplica("grayify")
		p.secret = "s3cret"
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		return r, p, stop
	}
	t.Run("the POST is tried again", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p, stop := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.restartsBesideSecret(p, stop)
			if o := r.await(p, record.PhaseReady); o.Bare != "" {
				t.Error("the note stays")
			}
			r.inPlace(p)
			r.secretIs(p)
		})
	})
	t.Run("it is rolled back", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p, stop := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.restartsBesideSecret(p, stop)
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Spec = record.CauseRollback, "" })
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("it is rolled back, and dies as it is posted for its DELETE", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p, stop := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.eventually("it was posted", func() bool { _, made := r.sim.Secret(p.name); return made })
			r.fault(oscarsim.OpCreate, oscarsim.FaultHang, 1)
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Spec = record.CauseRollback, "" })
			r.eventually("it is posted again", func() bool { return len(r.calls(p.name)) == 2 })
			r.restartsBesideSecret(p, stop)
			r.fault(oscarsim.OpCreate, "", 0)
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("in a DELETE", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p, stop := begin(t)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseReady)
			r.fault(oscarsim.OpDelete, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Spec = "" })
			r.restartsBesideSecret(p, stop)
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("after a readmission", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p, stop := begin(t)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
			r.want(p, record.IntentApply)
			r.eventually("the Secret is left", func() bool { _, secret := r.sim.Secret(p.name); return secret })
			stop()
			told := &record.Told{Bare: r.observed(p.name).Bare}
			r.remove(record.ObservedServiceKey(clusterID, p.name))
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Spec, d.Told = record.CauseRollback, "", told })
			r.start(withSecrets(r))
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("and leaves one of others", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p, stop := begin(t)
			r.sim.LeftoverSecret(p.name)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseFailed)
			r.restartsBesideSecret(p, stop)
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Spec = record.CauseRollback, "" })
			r.await(p, record.PhaseDeleted)
			if got, _ := r.sim.Secret(p.name); got["leftover"] != "value" {
				t.Errorf("the Secret is %q", got)
			}
		})
	})
}

// TestASyncerThatIsReadmittedBesideALeftSecretKnowsIt: its reports are deleted, and the order keeps the note.
func TestASyncerThatIsReadmittedBesideALeftSecretKnowsIt(t *testing.T) {
	begin := func(t *testing.T) (*rig, *replica) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start(withSecrets(r))
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
		r.want(p, record.IntentApply)
		r.eventually("the Secret is left", func() bool { _, secret := r.sim.Secret(p.name); return secret })
		stop()
		return r, p
	}
	readmitted := func(r *rig, p *replica, intent record.Intent) (stop func()) {
		bare := r.observed(p.name).Bare
		r.remove(record.ObservedServiceKey(clusterID, p.name))
		r.want(p, intent, func(d *record.Desired) { d.Told = &record.Told{Bare: bare} })
		return r.start(withSecrets(r))
	}
	t.Run("the POST is tried again", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			readmitted(r, p, record.IntentApply)
			r.await(p, record.PhaseReady)
			r.inPlace(p)
			r.secretIs(p)
		})
	})
	t.Run("it is deleted", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			readmitted(r, p, record.IntentDelete)
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("one that comes after the service stood is somebody's", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			stop := readmitted(r, p, record.IntentApply)
			told := p.desired.Told
			r.await(p, record.PhaseReady)
			stop()
			r.sim.RemoveService(p.name)
			r.sim.LeftoverSecret(p.name)
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Told = told })
			r.start(withSecrets(r))
			r.await(p, record.PhaseDeleted)
			if got, _ := r.sim.Secret(p.name); got["leftover"] != "value" {
				t.Errorf("the Secret is %q", got)
			}
		})
	})
}

// TestANoteOfALeftSecretIsTakenFromWhoKnowsTheToken: anybody who may write the report can seal one to the cluster.
func TestANoteOfALeftSecretIsTakenFromWhoKnowsTheToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		p := newReplica("grayify")
		r.sim.LeftoverSecret(p.name)
		r.want(p, record.IntentDelete)
		body := []byte(`{"name":"grayify","image":"example.org/evil","script":"evil","token":"` + newReplica("other").token + `"}`)
		forged := world.Must(seal.Seal(seal.Header{Purpose: seal.PurposeBare, Cluster: clusterID, UID: p.uid}, body, r.identity.Recipient()))(t)
		r.put(record.ObservedServiceKey(clusterID, p.name), record.Observed{V: 1, Phase: record.PhaseDeleting, UID: p.uid, ObservedGeneration: 1, DesiredRevision: p.revision, Bare: forged})
		r.start(withSecrets(r))
		r.await(p, record.PhaseDeleted)
		r.equalCalls(p.name)
		if got, _ := r.sim.Secret(p.name); got["leftover"] != "value" {
			t.Errorf("the Secret is %q", got)
		}
	})
}

// TestASecretThatIsNotOursStays: it came after the vote.
func TestASecretThatIsNotOursStays(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(withSecrets(r))
		p := newReplica("grayify")
		p.secret = "s3cret"
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.sim.LeftoverSecret(p.name)
		r.want(p, record.IntentApply)
		if o := r.await(p, record.PhaseFailed); o.Status != 409 || !strings.Contains(o.Message, "secret") {
			t.Errorf("report %+v", o)
		}
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		r.await(p, record.PhaseDeleted)
		r.equalCalls(p.name, "create")
		if got, _ := r.sim.Secret(p.name); got["leftover"] != "value" {
			t.Errorf("the Secret is %q", got)
		}
	})
}

// TestASecretOfAUsersServiceGoes: it is in his namespace, where only a service that is his has it deleted. Without his
// token it stays, and that is told.
func TestASecretOfAUsersServiceGoes(t *testing.T) {
	for name, tokenStays := range map[string]bool{"with his token": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				p.secret = "s3cret"
				r.deliver(i.Token(alice, nil), inAnHour())
				r.start(withSecrets(r))
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
				r.want(p, record.IntentApply)
				r.eventually("it was posted", func() bool { return len(r.sim.State().Secrets) > 0 })
				if !tokenStays {
					r.remove(record.TokensKey(clusterID, "fed"))
				}
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
				o := r.await(p, record.PhaseDeleted)
				told := strings.Contains(o.Message, "Secret is left")
				if left := len(r.sim.State().Secrets) > 0; told == tokenStays || left == tokenStays || o.SecretLeft != left {
					t.Errorf("the Secret is left: %t, told: %t, noted: %t", left, told, o.SecretLeft)
				}
				for _, c := range r.sim.Log() {
					if c.Service == p.name && c.Op == oscarsim.OpCreate && c.By != alice {
						t.Errorf("a POST by %s", c.By)
					}
				}
			})
		})
	}
}
