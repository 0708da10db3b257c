package answers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

func refusedConnection() error {
	return &manager.APIError{Op: manager.OpList, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
}

func TestWhatAnErrorOfOSCARSaysOfTheCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		reason  record.Reason
		mention string
		lasting bool
	}{
		"nobody listens":           {refusedConnection(), record.ReasonOscarUnreachable, "connection refused", true},
		"a certificate of nobody":  {&manager.APIError{Op: manager.OpInfo, Err: &tls.CertificateVerificationError{Err: errors.New("x")}}, record.ReasonOscarUnreachable, "certificate", true},
		"an unknown name":          {&manager.APIError{Op: manager.OpInfo, Err: &net.DNSError{Name: "secret-host.internal"}}, record.ReasonOscarUnreachable, "name", false},
		"silence":                  {&manager.APIError{Op: manager.OpList, Err: fmt.Errorf("x: %w", context.DeadlineExceeded)}, record.ReasonOscarUnreachable, "silent", false},
		"silence of MinIO":         {&manager.APIError{Op: manager.OpBuckets, Err: context.DeadlineExceeded}, record.ReasonStorageUnreachable, "silent", false},
		"MinIO is not there":       {&manager.APIError{Op: manager.OpBuckets, Status: 500, Body: "dial tcp: connection refused"}, record.ReasonStorageUnreachable, "buckets answered 500: dial tcp", false},
		"OSCAR goes before MinIO":  {&manager.APIError{Op: manager.OpBuckets, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, record.ReasonOscarUnreachable, "connection refused", true},
		"an error of OSCAR":        {&manager.APIError{Op: manager.OpList, Status: 503, Body: strings.Repeat("x", 5000)}, record.ReasonOscarUnreachable, "list answered 503: xxx", false},
		"another server":           {&manager.APIError{Op: manager.OpList, Status: 200, Err: errors.New("no JSON")}, record.ReasonOscarUnreachable, "not what OSCAR sends", false},
		"the credential":           {&manager.APIError{Op: manager.OpList, Status: 401}, record.ReasonCredentialRefused, "password file", true},
		"a password that is not":   {&manager.APIError{Op: manager.OpList, Err: fmt.Errorf("%w: open /run/secrets/x", manager.ErrNoPassword)}, record.ReasonCredentialRefused, "password file", true},
		"a connection that broke":  {&manager.APIError{Op: manager.OpList, Err: errors.New("EOF")}, record.ReasonOscarUnreachable, "broke off", false},
		"wrapped by somebody else": {fmt.Errorf("look: %w", refusedConnection()), record.ReasonOscarUnreachable, "connection refused", true},
	} {
		c, known := ConditionOf(tt.err)
		if !known || c.Reason != tt.reason || c.Lasting != tt.lasting || !strings.Contains(c.Message, tt.mention) || len(c.Message) > 700 ||
			strings.Contains(c.Message, "/run/") || strings.Contains(c.Message, "internal") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c, known := ConditionOf(errors.New("etcd does not answer")); known {
		t.Errorf("an error of somebody else says %+v", c)
	}
}

// TestAHiccupOfOSCARIsNoCondition: the cluster has one when it is seen again after a
// while, and the longest trouble counts.
func TestAHiccupOfOSCARIsNoCondition(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	news, recovered := 0, 0
	at := now
	h := newHealth(func() time.Time { return at }, func() { news++ }, func() { recovered++ })
	dead, _ := ConditionOf(refusedConnection())

	at = now
	h.Failed(manager.OpList, dead)
	if c, _ := h.Standing(); c.Reason != "" || h.Lasts() || news != 1 {
		t.Errorf("after one failure: %+v, %d news", c, news)
	}
	h.answered(manager.OpList)
	at = after(10)
	h.Failed(manager.OpList, dead)
	if c, _ := h.Standing(); c.Reason != "" || h.Lasts() || recovered != 0 {
		t.Errorf("after one failure, an answer and another failure: %+v", c)
	}
	at = after(12)
	h.Failed(manager.OpList, dead)
	if c, since := h.Standing(); c.Reason != record.ReasonOscarUnreachable || !since.Equal(after(10)) || !h.Lasts() {
		t.Errorf("after two failures: %+v since %s", c, since)
	}
	// Silence is no refusal, and goes on with what began before.
	at = after(14)
	h.Failed(manager.OpList, Hangs(manager.OpList))
	if c, since := h.Standing(); c.Lasting || !since.Equal(after(10)) || h.Lasts() {
		t.Errorf("after silence: %+v since %s", c, since)
	}
	h.answered(manager.OpList)
	if c, _ := h.Standing(); c.Reason != "" || recovered != 1 || len(h.Troubled()) != 0 {
		t.Errorf("after an answer: %+v, recovered %d times", c, recovered)
	}
}

// TestARestartOfMinIOIsNoCondition: OSCAR restarts it for each creation; and that OSCAR
// answers otherwise says nothing about it.
func TestARestartOfMinIOIsNoCondition(t *testing.T) {
	now := time.Now()
	at := now
	h := newHealth(func() time.Time { return at }, func() {}, func() {})
	away, _ := ConditionOf(&manager.APIError{Op: manager.OpBuckets, Status: 500, Body: "connection refused"})
	at = now
	h.Failed(manager.OpBuckets, away)
	at = now.Add(7 * time.Second)
	h.Failed(manager.OpBuckets, away)
	if c, _ := h.Standing(); c.Reason != "" {
		t.Errorf("after a restart: %+v", c)
	}
	h.answered(manager.OpList)
	at = now.Add(12 * time.Second)
	h.Failed(manager.OpBuckets, away)
	if c, since := h.Standing(); c.Reason != record.ReasonStorageUnreachable || !since.Equal(now) || h.Lasts() {
		t.Errorf("after 12 s: %+v since %s", c, since)
	}
}
