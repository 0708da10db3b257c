package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/seal"
)

// shareOf gives the lines of an envelope's shares.
func shareOf(t testing.TB, sealed string) (shares []string) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := bytes.Cut(raw, []byte("\n--- "))
	if !ok {
		t.Fatal("there is no header of age")
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		if share, ok := strings.CutPrefix(line, "-> "); ok {
			shares = append(shares, share)
		}
	}
	return shares
}

// What an identity seals to itself is opened by it, also after it was read from its file again,
// and by the further recipients that it was sealed to, and by no other.
func TestWhoOpensWhatASealerSeals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identity.age")
	own, err := seal.LoadOrCreate(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := seal.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	other, stranger := generate(t), generate(t)
	sealer := own.Sealer(func() time.Time { return now })
	plain, shared := seal.Recipient{Key: other.Recipient()}, seal.Recipient{Key: other.Recipient(), Shared: true}
	for name, c := range map[string]struct {
		to     []seal.Recipient
		shares []string
		opens  []*seal.Identity
		others []*seal.Identity
	}{
		"to itself":                {[]seal.Recipient{sealer.Own()}, []string{"oscarfed/self"}, []*seal.Identity{own, again}, []*seal.Identity{other, stranger}},
		"to itself and another":    {[]seal.Recipient{sealer.Own(), plain}, []string{"oscarfed/self", "X25519"}, []*seal.Identity{own, again, other}, []*seal.Identity{stranger}},
		"to another by agreement":  {[]seal.Recipient{shared}, []string{"oscarfed/shared"}, []*seal.Identity{other}, []*seal.Identity{own, stranger}},
		"to both, by an agreement": {[]seal.Recipient{shared, sealer.Own()}, []string{"oscarfed/shared", "oscarfed/self"}, []*seal.Identity{own, again, other}, []*seal.Identity{stranger}},
	} {
		sealed, err := sealer.Seal(header, []byte(secret), c.to...)
		if err != nil {
			t.Fatal(err)
		}
		for i, share := range shareOf(t, sealed) {
			if kind, _, _ := strings.Cut(share, " "); len(c.shares) <= i || kind != c.shares[i] {
				t.Errorf("%s: share %d is %q", name, i, share)
			}
		}
		for i, id := range c.opens {
			if got, err := id.Open(sealed, header, now); err != nil || string(got) != secret {
				t.Errorf("%s: %d opened %q, error %v", name, i, got, err)
			}
			elsewhere := header
			elsewhere.Cluster = "oscar-cluster-b"
			if _, err := id.Open(sealed, elsewhere, now); !errors.Is(err, seal.ErrMismatch) {
				t.Errorf("%s: what was sealed for another cluster: %v", name, err)
			}
		}
		for i, id := range c.others {
			if got, err := id.Open(sealed, header, now); !errors.Is(err, seal.ErrUndecryptable) || got != nil {
				t.Errorf("%s: somebody else, %d, opened %q, error %v", name, i, got, err)
			}
		}
	}
	for _, bad := range []seal.Recipient{{}, {Key: "age1", Shared: true}, {Key: "ssh-ed25519 AAAA", Shared: true}, {Key: "age1"}} {
		if _, err := sealer.Seal(header, []byte(secret), bad); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("recipient %q: %v", bad.Key, err)
		}
	}
}

// A Sealer agrees with each recipient once an hour, whatever its clock does, and no two
// envelopes are the same.
func TestAnAgreementLastsForAnHour(t *testing.T) {
	own, one, two := generate(t), generate(t), generate(t)
	clock := now
	sealer := own.Sealer(func() time.Time { return clock })
	var last string
	names := map[string]string{}
	agreed := func(id *seal.Identity) string {
		t.Helper()
		sealed, err := sealer.Seal(header, []byte(secret), seal.Recipient{Key: id.Recipient(), Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := id.Open(sealed, header, now); err != nil || string(got) != secret {
			t.Errorf("opened %q, error %v", got, err)
		}
		if sealed == last {
			t.Error("two envelopes are the same")
		}
		last = sealed
		return shareOf(t, sealed)[0]
	}
	names["first"] = agreed(one)
	names["of another"] = agreed(two)
	clock = now.Add(time.Hour - time.Nanosecond)
	if agreed(one) != names["first"] {
		t.Error("within the hour there is another agreement")
	}
	clock = now.Add(time.Hour)
	names["after an hour"] = agreed(one)
	clock = now.Add(-time.Minute)
	names["before"] = agreed(one)
	seen := map[string]string{}
	for what, name := range names {
		if other, twice := seen[name]; twice {
			t.Errorf("%s and %s are one agreement", what, other)
		}
		seen[name] = what
	}
}

// An identity opens what more Sealers have sealed to it than it remembers.
func TestMoreAgreementsThanAreRemembered(t *testing.T) {
	to := generate(t)
	own := generate(t)
	var all []string
	for range 260 {
		sealed, err := own.Sealer(time.Now).Seal(header, []byte(secret), seal.Recipient{Key: to.Recipient(), Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sealed)
	}
	for range 2 {
		for _, sealed := range all {
			if got, err := to.Open(sealed, header, now); err != nil || string(got) != secret {
				t.Fatalf("opened %q, error %v", got, err)
			}
		}
	}
}

// A share that is not as it is made opens nothing.
func TestAShareThatIsDamaged(t *testing.T) {
	id, other := generate(t), generate(t)
	sealer := id.Sealer(time.Now)
	for to, recipient := range map[*seal.Identity]seal.Recipient{id: sealer.Own(), other: {Key: other.Recipient(), Shared: true}} {
		sealed, err := sealer.Seal(header, []byte(secret), recipient)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(sealed)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(raw), "\n", 4)

		for name, share := range map[string][2]string{
			"no body":            {lines[1], ""},
			"a short body":       {lines[1], lines[2][:16]},
			"another body":       {lines[1], strings.Repeat("A", len(lines[2]))},
			"no name":            {"-> oscarfed/shared", lines[2]},
			"a short name":       {"-> oscarfed/shared AAAA", lines[2]},
			"no base64":          {"-> oscarfed/shared !!!!", lines[2]},
			"a point of order 1": {"-> oscarfed/shared " + strings.Repeat("A", 43), lines[2]},
			"two names":          {lines[1] + " AAAA AAAA", lines[2]},
			"another kind":       {"-> oscarfed/other", lines[2]},
		} {
			damaged := strings.Join([]string{lines[0], share[0], share[1], lines[3]}, "\n")
			if got, err := to.Open(base64.StdEncoding.EncodeToString([]byte(damaged)), header, now); !errors.Is(err, seal.ErrUndecryptable) || got != nil {
				t.Errorf("%s, %s: opened %q, error %v", lines[1], name, got, err)
			}
		}
	}
}
