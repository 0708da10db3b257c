package controlplane_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// A syncer that does not say that it knows shares of agreed keys, as an older one, gets
// age's own; both open what they were sent.
func TestAnOlderSyncerGetsSharesThatItKnows(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.clusters["b"]
		b.write(record.ObservedClusterKey("b"), record.ObservedCluster{
			V: record.Version, Recipient: b.identity.Recipient(), OscarVersion: "v4.1.2", SharedKeys: true,
		})
		req := send(t, `{"environment":{"secrets":{"KEY":"a value"}},`+definition)
		if _, err := w.Federations.CreateService(t.Context(), admin, req); err != nil {
			t.Fatal(err)
		}
		for id, p := range w.clusters {
			want := []string{"oscarfed/self", "X25519"}
			if id == "b" {
				want[1] = "oscarfed/shared"
			}
			specs, _, err := w.store.List(t.Context(), record.DesiredPrefix(id)+"specs/")
			if err != nil || len(specs) != 1 {
				t.Fatalf("%s has %d specs, error %v", id, len(specs), err)
			}
			spec, err := store.Decode[record.Spec](specs[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := shares(t, spec.Sealed); !slices.Equal(got, want) {
				t.Errorf("%s: shares %q, want %q", id, got, want)
			}
			if got := p.secrets(); got["KEY"] != "a value" {
				t.Errorf("%s finds %q in its envelope", id, got)
			}
		}
	})
}

// shares are the kinds of shares in the header of an envelope.
func shares(t *testing.T, sealed string) (kinds []string) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(raw), "\n--- ")
	for line := range strings.Lines(head) {
		if share, ok := strings.CutPrefix(line, "-> "); ok {
			kinds = append(kinds, strings.Fields(share)[0])
		}
	}
	return kinds
}
