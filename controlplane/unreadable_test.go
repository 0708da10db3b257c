package controlplane

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/lograte"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster that wrote what cannot be read hid that a record of the control plane, or of another cluster, cannot be.
func TestUnreadableReportsOfAClusterHideNoOtherRecord(t *testing.T) {
	var log bytes.Buffer
	c := &ControlPlane{cfg: Config{Logger: slog.New(lograte.New(slog.NewTextHandler(&log, nil), lograte.Config{}))}}
	tell := func(key string) {
		c.stateChanged(&view.Changes{
			Corrupt: []error{&store.CorruptError{Key: key, Err: errors.New("unreadable")}}, Strange: map[string]string{key: `phase "new"`},
		})
	}
	for range 1000 {
		tell(record.ObservedServiceKey("hostile", "s"))
	}
	for _, key := range []string{record.FederationKey("f"), record.ObservedServiceKey("honest", "s")} {
		tell(key)
		if n := strings.Count(log.String(), key); n != 2 {
			t.Errorf("%d lines are about %s", n, key)
		}
	}
}
