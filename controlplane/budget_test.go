package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// A place that is taken is found after the specs were written: they wait to be swept.
func TestSpecsThatWaitToBeSweptCount(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.BytesPerUser = 4 << 20 })
		w.mustCreate() // by the administrator, who has no budget
		ann := identity.Caller{Subject: "ann"}
		var codes []fault.Code
		for range 4 {
			_, err := w.Federations.CreateService(t.Context(), ann, send(t, bulky()))
			codes = append(codes, codeOf(t, err))
		}
		if want := "[already_exists already_exists exhausted exhausted]"; fmt.Sprint(codes) != want {
			t.Errorf("%v, want %s", codes, want)
		}
		second := startControlPlane(t, w.store, w.identity, func(c *controlplane.Config) { c.BytesPerUser = 4 << 20 })
		_, err := second.Federations.CreateService(t.Context(), ann, send(t, bulky()))
		if code := codeOf(t, err); code != fault.CodeExhausted {
			t.Errorf("an instance that was just started: %v", err)
		}
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
