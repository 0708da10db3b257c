package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/test/await"
)

// bulky is a user's definition with a script of 400 KiB.
func bulky() string {
	return strings.Replace(usersBody, `"script":"#!/bin/sh\n"`, `"script":"`+strings.Repeat("x", 400<<10)+`"`, 1)
}

func TestOneUserCannotFillEtcdByCreatingAndDeleting(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.BytesPerUser = 4 << 20 })
		ann, bob := identity.Caller{Subject: "ann"}, identity.Caller{Subject: "bob"}
		var err error
		made := 0
		for ; made < 10; made++ { // each has 1.6 MiB
			if _, err = w.Federations.CreateService(t.Context(), ann, send(t, bulky())); err != nil {
				break
			}
			if _, err := w.Federations.DeleteService(t.Context(), ann, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		if code := codeOf(t, err); code != fault.CodeExhausted || made != 2 {
			t.Fatalf("%d were made, and then: %v", made, err)
		}
		for _, word := range []string{"4.0 MiB", "--bytes-per-user", "deleted or replaced", "ann"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q says nothing of %s", err, word)
			}
		}
		if _, err := w.Federations.CreateService(t.Context(), bob, send(t, bulky())); err != nil {
			t.Errorf("the other user: %v", err)
		}
	})
}

// Callers hang up when the specs are written: these wait to be swept.
func TestSpecsThatWaitToBeSweptCount(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		hangUp := func() {}
		w := newWorld(t, func(c *controlplane.Config) {
			c.BytesPerUser = 4 << 20
			c.FailPoint = func(at string) {
				if at == "controlplane.after_specs" {
					hangUp()
				}
			}
		})
		ann := identity.Caller{Subject: "ann"}
		var outcomes []string
		for range 4 {
			var ctx context.Context
			ctx, hangUp = context.WithCancel(t.Context())
			_, err := w.Federations.CreateService(ctx, ann, send(t, bulky()))
			outcome := "hung up"
			if ctx.Err() == nil {
				outcome = string(codeOf(t, err))
			}
			outcomes = append(outcomes, outcome)
			hangUp()
		}
		if want := "[hung up hung up exhausted exhausted]"; fmt.Sprint(outcomes) != want {
			t.Errorf("%v, want %s", outcomes, want)
		}
		second := startControlPlane(t, w.store, w.identity, func(c *controlplane.Config) { c.BytesPerUser = 4 << 20 })
		_, err := second.Federations.CreateService(t.Context(), ann, send(t, bulky()))
		if code := codeOf(t, err); code != fault.CodeExhausted {
			t.Errorf("an instance that was just started: %v", err)
		}
	})
}

// A caller who repeats what is refused, with the largest definition, fills nothing.
func TestWhatIsTakenIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		mesh := strings.NewReplacer("grayifyr0", "other0", "grayifyr1", "other1", `"c","service_name":"grayifyr2"`, `"d","service_name":"other2"`).Replace(body)
		if _, err := w.create(func(r *federations.CreateRequest) { *r = send(t, mesh) }); err != nil {
			t.Fatal(err)
		}
		create := func(definition string) func() error {
			return func() error {
				_, err := w.create(func(r *federations.CreateRequest) { *r = send(t, definition) })
				return err
			}
		}
		add := func() error {
			_, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "other2")}})
			return err
		}
		refused := func(what string, request func() error) {
			before := w.revision()
			if err := request(); codeOf(t, err) != fault.CodeAlreadyExists {
				t.Errorf("%s: %v", what, err)
			}
			if now := w.revision(); now != before {
				t.Errorf("%s: %d revisions", what, now-before)
			}
		}
		refused("a group", create(body))
		refused("a location", create(strings.ReplaceAll(body, "grayifyr0", "third0")))
		refused("a location of a new member", add)
		w.clusters["d"].does(silent)
		if _, err := w.Federations.DeleteService(t.Context(), admin, "other0", federations.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool {
			d, ok := w.desired("d", "other2")
			return ok && d.Tombstone()
		})
		<-time.After(time.Minute)
		refused("a location that is given up", create(mesh))
		refused("a location of a new member that is given up", add)
	})
}

// What does not fit is refused before its first part is written.
func TestACreationIsHeldAgainstTheFreeSpaceWhole(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := emptyWorld(t, embedded.Config{Quota: 16 << 20})
		w.start()
		var members []string
		for i := range 40 {
			members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":"b","service_name":"many%d"}`, i))
		}
		body := fmt.Sprintf(`{"name":"many","image":"i","cpu":"0.5","memory":"0.5Gi","script":"%s","federation":{"topology":"star","members":[%s]}}`,
			strings.Repeat("x", 400<<10), strings.Join(members, ","))
		w.eventually(func() bool { return w.Info(t.Context()).Etcd.Quota > 0 })
		before := w.revision()
		_, err := w.Federations.CreateService(t.Context(), admin, send(t, body))
		if code := codeOf(t, err); code != fault.CodeUnavailable || !strings.Contains(err.Error(), "MiB are free") {
			t.Errorf("%v", err)
		}
		if after := w.revision(); after != before {
			t.Errorf("%d revisions were written for a creation that does not fit", after-before)
		}
	})
}
