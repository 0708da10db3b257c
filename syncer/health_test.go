package syncer

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
		c, known := conditionOf(tt.err)
		if !known || c.reason != tt.reason || c.lasting != tt.lasting || !strings.Contains(c.message, tt.mention) || len(c.message) > 700 ||
			strings.Contains(c.message, "/run/") || strings.Contains(c.message, "internal") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c, known := conditionOf(errors.New("etcd does not answer")); known {
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
	dead, _ := conditionOf(refusedConnection())

	at = now
	h.failed(manager.OpList, dead)
	if c, _ := h.stands(); c.reason != "" || h.surely() || news != 1 {
		t.Errorf("after one failure: %+v, %d news", c, news)
	}
	h.answered(manager.OpList)
	at = after(10)
	h.failed(manager.OpList, dead)
	if c, _ := h.stands(); c.reason != "" || h.surely() || recovered != 0 {
		t.Errorf("after one failure, an answer and another failure: %+v", c)
	}
	at = after(12)
	h.failed(manager.OpList, dead)
	if c, since := h.stands(); c.reason != record.ReasonOscarUnreachable || !since.Equal(after(10)) || !h.surely() {
		t.Errorf("after two failures: %+v since %s", c, since)
	}
	// Silence is no refusal, and goes on with what began before.
	at = after(14)
	h.failed(manager.OpList, hangs(manager.OpList))
	if c, since := h.stands(); c.lasting || !since.Equal(after(10)) || h.surely() {
		t.Errorf("after silence: %+v since %s", c, since)
	}
	h.answered(manager.OpList)
	if c, _ := h.stands(); c.reason != "" || recovered != 1 || len(h.troubled()) != 0 {
		t.Errorf("after an answer: %+v, recovered %d times", c, recovered)
	}
}

// TestARestartOfMinIOIsNoCondition: OSCAR restarts it for each creation; and that OSCAR
// answers otherwise says nothing about it.
func TestARestartOfMinIOIsNoCondition(t *testing.T) {
	now := time.Now()
	at := now
	h := newHealth(func() time.Time { return at }, func() {}, func() {})
	away, _ := conditionOf(&manager.APIError{Op: manager.OpBuckets, Status: 500, Body: "connection refused"})
	at = now
	h.failed(manager.OpBuckets, away)
	at = now.Add(7 * time.Second)
	h.failed(manager.OpBuckets, away)
	if c, _ := h.stands(); c.reason != "" {
		t.Errorf("after a restart: %+v", c)
	}
	h.answered(manager.OpList)
	at = now.Add(12 * time.Second)
	h.failed(manager.OpBuckets, away)
	if c, since := h.stands(); c.reason != record.ReasonStorageUnreachable || !since.Equal(now) || h.surely() {
		t.Errorf("after 12 s: %+v since %s", c, since)
	}
}
