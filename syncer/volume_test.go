package syncer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// mounts gives the replica a volume.
func (p *replica) mounts(volume map[string]any) {
	volume["mount_path"] = "/data"
	p.extra = map[string]any{"volume": volume}
}

// leaveVolume makes a volume with a file as an earlier life of a service leaves it.
func (r *rig) leaveVolume(service, name string) {
	r.t.Helper()
	def := fmt.Sprintf(`{"name":%q,"image":"i","script":"s","volume":{"name":%q,"size":"1Gi","mount_path":"/d","lifecycle_policy":"retain"}}`, service, name)
	if status := r.ask(http.MethodPost, "/system/services", def); status != http.StatusCreated {
		r.t.Fatalf("POST answered %d", status)
	}
	r.ask(http.MethodDelete, "/system/services/"+service, "")
	r.sim.PutVolume(oscar.OwnerAdmin, name, "mine")
	r.before[service] = len(r.calls(service))
	r.watchVolume(oscar.OwnerAdmin, name)
}

func (r *rig) watchVolume(owner, name string) {
	r.t.Helper()
	if _, ok := r.sim.Volume(owner, name); !ok {
		r.t.Fatalf("there is no volume %q", name)
	}
	r.watch("volume "+name, func() any { v, _ := r.sim.Volume(owner, name); return v })
}

// volumeFateOf is what a report tells of the volume.
func volumeFateOf(o *record.Observed) string {
	f := o.VolumeFate
	if f == nil {
		return ""
	}
	return strings.TrimSpace(f.Volume + " " + f.Fate + " " + f.Why)
}

// shownVolume is what OSCAR shows of a service's volume.
func (r *rig) shownVolume(name string) string {
	r.t.Helper()
	v, _ := r.sim.Service(name)
	var shown struct {
		Volume json.RawMessage `json:"volume"`
	}
	if err := json.Unmarshal(v.JSON, &shown); err != nil {
		r.t.Fatal(err)
	}
	return string(shown.Volume)
}

// TestTheVolumeWentWithItsService: OSCAR deletes the volume that a service's creation
// made with the service, unless it was told not to at the creation.
func TestTheVolumeWentWithItsService(t *testing.T) {
	for _, policy := range []string{"", "delete", "retain"} {
		t.Run("policy "+policy, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.mounts(map[string]any{"size": "1Gi", "lifecycle_policy": policy})
				r.makeReady(p)
				r.sim.PutVolume(oscar.OwnerAdmin, p.name, "mine")
				r.watchVolume(oscar.OwnerAdmin, p.name)
				// A change leaves it as it is.
				p.generation, p.image = 2, "example.org/other"
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseReady)
				r.equalCalls(p.name, "create", "update")
				r.want(p, record.IntentDelete)
				if got := volumeFateOf(r.await(p, record.PhaseDeleted)); got != "grayify kept" {
					t.Errorf("told: %s", got)
				}
			})
		})
	}
}

func TestVolumeIsDeletedWhenOrdered(t *testing.T) {
	for _, tc := range []struct {
		name   string
		volume map[string]any
		stays  bool
		setup  func(*rig, *replica)
		told   string
	}{
		{"made by this creation", map[string]any{"size": "1Gi"}, false, nil, "grayify deleted"},
		{"to be retained", map[string]any{"size": "1Gi", "lifecycle_policy": "retain"}, true, nil,
			"grayify kept it was not made by this creation, or its lifecycle_policy is retain"},
		{"left by an earlier life", map[string]any{"size": "1Gi"}, false, func(r *rig, p *replica) { r.leaveVolume(p.name, p.name) },
			"grayify kept it was not made by this creation, or its lifecycle_policy is retain"},
		{"used by name", map[string]any{"name": "shared"}, false, func(r *rig, p *replica) {
			r.sim.PutVolume(oscar.OwnerAdmin, "shared", "a")
			r.watchVolume(oscar.OwnerAdmin, "shared")
		}, "shared kept it was not made by this creation, or its lifecycle_policy is retain"},
		{"OSCAR does not manage volumes", map[string]any{"size": "1Gi"}, false, nil,
			"grayify kept the cluster's OSCAR manages no volumes (VOLUME_ENABLE=false)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{NoVolumes: strings.HasPrefix(tc.name, "OSCAR")})
				p := newReplica("grayify")
				p.volumeStays = tc.stays
				p.mounts(tc.volume)
				if tc.setup != nil {
					tc.setup(r, p)
				}
				stop := r.start()
				r.makeReady(p)
				stop()
				r.start() // what it must know is in the records
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
				o := r.await(p, record.PhaseDeleted)
				if got := volumeFateOf(o); got != tc.told {
					t.Errorf("told: %s", got)
				}
				_, stands := r.sim.Volume(oscar.OwnerAdmin, o.VolumeFate.Volume)
				if kept := o.VolumeFate.Fate == record.BucketKept; stands != kept {
					t.Errorf("the volume stands: %v", stands)
				}
			})
		})
	}
}

// TestAVolumeIsDeletedAfterAReadmission: the report that told of it is gone, and the order keeps what it said.
func TestAVolumeIsDeletedAfterAReadmission(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone %t", gone), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				p := newReplica("grayify")
				p.mounts(map[string]any{"size": "1Gi"})
				stop := r.start()
				r.makeReady(p)
				stop()
				told := &record.Told{Volume: r.observed(p.name).Volume}
				r.remove(record.ObservedServiceKey(clusterID, p.name))
				if gone {
					r.ask(http.MethodDelete, "/system/services/"+p.name, "")
				}
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data, d.Spec, d.Told = record.DataDelete, "", told })
				r.start()
				if got := volumeFateOf(r.await(p, record.PhaseDeleted)); got != "grayify deleted" {
					t.Errorf("told: %s", got)
				}
				if _, stands := r.sim.Volume(oscar.OwnerAdmin, p.name); stands {
					t.Error("the volume stands")
				}
			})
		})
	}
}

// TestVolumeOfAnotherServiceStays: by the time of the order somebody else uses it.
func TestVolumeOfAnotherServiceStays(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.mounts(map[string]any{"size": "1Gi"})
		r.makeReady(p)
		r.sim.PutVolume(oscar.OwnerAdmin, p.name, "mine")
		r.watchVolume(oscar.OwnerAdmin, p.name)
		if status := r.ask(http.MethodPost, "/system/services", `{"name":"stranger","image":"i","script":"s","volume":{"name":"grayify","mount_path":"/d"}}`); status != http.StatusCreated {
			t.Fatal(status)
		}
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
		if got := volumeFateOf(r.await(p, record.PhaseDeleted)); got != `grayify kept service "stranger" uses it` {
			t.Errorf("told: %s", got)
		}
	})
}

// TestACreateDestroyedTheVolumeThatItFound: it comes between the vote and the POST, and
// between the last look and the POST.
func TestACreateDestroyedTheVolumeThatItFound(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the last look: %v", late), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				appear := func() {
					r.sim.PutVolume(oscar.OwnerAdmin, "grayify", "precious")
					r.watchVolume(oscar.OwnerAdmin, "grayify")
				}
				inner, once := r.oscar("syncer"), false
				r.start(func(c *syncer.Config) {
					c.OSCAR = &proxy{OSCAR: inner, create: func(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
						if late && !once {
							once = true
							appear()
						}
						return inner.Create(ctx, name, body, as, timeout)
					}}
				})
				p := newReplica("grayify")
				p.mounts(map[string]any{"size": "1Gi"})
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				if !late {
					appear()
				}
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseFailed)
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
				if got := volumeFateOf(r.await(p, record.PhaseDeleted)); got != "" {
					t.Errorf("told: %s", got)
				}
				if !slices.Equal(r.calls(p.name), map[bool][]string{false: {}, true: {"create"}}[late]) {
					t.Errorf("calls %v", r.calls(p.name))
				}
			})
		})
	}
}

// TestCreateUsesTheVolumeThatAnEarlierLifeLeft: it is the same owner's service of the
// same name; also when the first try of the creation left it.
func TestCreateUsesTheVolumeThatAnEarlierLifeLeft(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		r.leaveVolume("grayify", "grayify")
		p := newReplica("grayify")
		p.mounts(map[string]any{"size": "1Gi"})
		o := r.makeReady(p)
		if got := r.shownVolume(p.name); got != `{"name":"grayify","size":"","mount_path":"/data"}` {
			t.Errorf("OSCAR shows %s", got)
		}
		if o.Volume == nil || o.Volume.Name != "grayify" || o.Volume.Deletable {
			t.Errorf("reported %+v", o.Volume)
		}
		p.generation, p.image = 2, "example.org/other"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.equalCalls(p.name, "create", "update")
	})
}

// TestAVolumeOfAnOlderSyncersServiceWentWithIt: its policy is OSCAR's default, and
// nobody can change it.
func TestAVolumeOfAnOlderSyncersServiceWentWithIt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		inner := r.oscar("syncer")
		stop := r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, create: func(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
				return inner.Create(ctx, name, bytes.Replace(body, []byte(`"lifecycle_policy":"retain"`), []byte(`"lifecycle_policy":"delete"`), 1), as, timeout)
			}}
		})
		p := newReplica("grayify")
		p.mounts(map[string]any{"size": "1Gi"})
		r.makeReady(p)
		stop()
		r.sim.PutVolume(oscar.OwnerAdmin, p.name, "mine")
		r.start()
		p.generation, p.image = 2, "example.org/other"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.want(p, record.IntentDelete)
		o := r.await(p, record.PhaseFailed, because(record.ReasonDetachFailed))
		if !strings.Contains(o.Message, `"grayify"`) || !strings.Contains(o.Message, "data=delete") {
			t.Errorf("told: %s", o.Message)
		}
		r.equalCalls(p.name, "create", "update")
		if v, _ := r.sim.Volume(oscar.OwnerAdmin, p.name); !slices.Equal(v.Files, []string{"mine"}) {
			t.Fatalf("the volume holds %v", v.Files)
		}
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
		if got := volumeFateOf(r.await(p, record.PhaseDeleted)); got != "grayify deleted" {
			t.Errorf("told: %s", got)
		}
		if _, ok := r.sim.Volume(oscar.OwnerAdmin, p.name); ok {
			t.Error("the volume stands")
		}
	})
}

// TestVolumeOfAUser: it is in his namespace, where only his own token reaches it; the
// administrator's volume of the same name is never touched.
func TestVolumeOfAUser(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("token at hand: %v", known), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				r.sim.PutVolume(oscar.OwnerAdmin, p.name, "the administrator's")
				r.watchVolume(oscar.OwnerAdmin, p.name)
				r.start()
				p.mounts(map[string]any{"size": "1Gi"})
				r.deliver(i.Token(alice, nil), inAnHour())
				r.makeReady(p)
				r.sim.PutVolume(alice, p.name, "mine")
				if !known {
					r.remove(record.TokensKey(clusterID, "fed"))
				}
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
				told := volumeFateOf(r.await(p, record.PhaseDeleted))
				_, stands := r.sim.Volume(alice, p.name)
				if known && (told != "grayify deleted" || stands) {
					t.Errorf("told: %s; it stands: %v", told, stands)
				}
				if !known && (!strings.HasPrefix(told, "grayify kept NeedsUserToken: ") || !stands) {
					t.Errorf("told: %s; it stands: %v", told, stands)
				}
			})
		})
	}
}
