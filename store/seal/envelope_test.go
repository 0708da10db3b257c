package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/oscarfed/oscarfed/store/seal"
)

var (
	now    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	header = seal.Header{Purpose: "service_secrets", Cluster: "oscar-cluster-a", UID: "0199c3a2", Generation: 3, Expires: now.Add(time.Hour)}
)

const secret = "correct horse battery staple"

func TestSealAndOpen(t *testing.T) {
	one, two, three := generate(t), generate(t), generate(t)
	sealed, err := seal.Seal(header, []byte(secret), one.Recipient(), two.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(sealed); err != nil || !bytes.HasPrefix(raw, []byte("age-encryption.org/v1\n")) {
		t.Errorf("not an age envelope in base64: %v", err)
	} else if bytes.Contains(raw, []byte(secret)) || bytes.Contains(raw, []byte(header.Purpose)) {
		t.Error("the envelope is readable")
	}
	if !seal.HasEnvelope(sealed) || !seal.HasEnvelope(`it is "`+sealed+`"`) || seal.HasEnvelope(one.Recipient()) {
		t.Error("an envelope is not told from other texts")
	}
	for _, id := range []*seal.Identity{one, two} {
		if got, err := id.Open(sealed, header, now); err != nil || string(got) != secret {
			t.Errorf("opened %q, error %v", got, err)
		}
	}
	if _, err := three.Open(sealed, header, now); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("opened by a stranger: %v", err)
	} else if !strings.Contains(err.Error(), three.Recipient()) {
		t.Errorf("it does not say to whom it is not sealed: %v", err)
	}
}

func TestOpenLooksAtTheHeader(t *testing.T) {
	id := generate(t)
	for name, c := range map[string]struct {
		change func(sealed, want *seal.Header)
		err    error
	}{
		"equal":                 {func(_, _ *seal.Header) {}, nil},
		"another purpose":       {func(_, w *seal.Header) { w.Purpose = "access_token" }, seal.ErrMismatch},
		"another cluster":       {func(_, w *seal.Header) { w.Cluster = "oscar-cluster-b" }, seal.ErrMismatch},
		"another life":          {func(_, w *seal.Header) { w.UID = "0199c3a3" }, seal.ErrMismatch},
		"no uid wanted":         {func(_, w *seal.Header) { w.UID = "" }, seal.ErrMismatch},
		"newer than wanted":     {func(s, _ *seal.Header) { s.Generation = 4 }, nil},
		"older than wanted":     {func(_, w *seal.Header) { w.Generation = 4 }, seal.ErrStale},
		"expired":               {func(s, _ *seal.Header) { s.Expires = now.Add(-time.Second) }, seal.ErrExpired},
		"expires now":           {func(s, _ *seal.Header) { s.Expires = now }, seal.ErrExpired},
		"not for a moment yet":  {func(s, _ *seal.Header) { s.Expires = now.Add(time.Nanosecond) }, nil},
		"never expires":         {func(s, _ *seal.Header) { s.Expires = time.Time{} }, nil},
		"wanted expiry is idle": {func(_, w *seal.Header) { w.Expires = now.Add(-time.Hour) }, nil},
		"a mismatch comes first": {func(s, w *seal.Header) {
			w.Cluster, w.Generation, s.Expires = "b", 9, now.Add(-time.Hour)
		}, seal.ErrMismatch},
	} {
		sealedFor, want := header, header
		c.change(&sealedFor, &want)
		sealed, err := seal.Seal(sealedFor, []byte(secret), id.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		got, err := id.Open(sealed, want, now)
		if !errors.Is(err, c.err) || (err == nil) != (string(got) == secret) {
			t.Errorf("%s: opened %q, error %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the payload", name)
		}
	}
}

func TestOpenRefusesWhatIsDamaged(t *testing.T) {
	id := generate(t)
	sealed, err := seal.Seal(header, bytes.Repeat([]byte(secret), 5000), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(raw)
	flipped[len(flipped)-20] ^= 1
	for name, s := range map[string]string{
		"empty":            "",
		"not base64":       "!" + sealed,
		"cut":              base64.StdEncoding.EncodeToString(raw[:len(raw)-20]),
		"cut after a part": base64.StdEncoding.EncodeToString(raw[:len(raw)-len(raw)%1024]),
		"one bit":          base64.StdEncoding.EncodeToString(flipped),
		"something else":   base64.StdEncoding.EncodeToString([]byte(secret)),
		"too long":         strings.Repeat("A", 4<<20),
		"no header":        encrypt(t, id, secret),
		"header of JSON":   encrypt(t, id, "[]\n"+secret),
		"no version":       encrypt(t, id, "{}\n"+secret),
		"another version":  encrypt(t, id, `{"v":2,"purpose":"service_secrets","cluster":"oscar-cluster-a","uid":"0199c3a2","generation":3}`+"\n"+secret),
	} {
		got, err := id.Open(s, header, now)
		if !errors.Is(err, seal.ErrUndecryptable) || got != nil {
			t.Errorf("%s: opened %d bytes, error %v", name, len(got), err)
		}
		if err != nil && strings.Contains(err.Error(), "battery") {
			t.Errorf("%s: the error shows the payload: %v", name, err)
		}
	}
}

// encrypt makes an envelope around any plaintext.
func encrypt(t testing.TB, id *seal.Identity, plain string) string {
	t.Helper()
	r, err := age.ParseX25519Recipient(id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

func TestSealLimits(t *testing.T) {
	id := generate(t)
	many := make([]string, 120)
	for i := range many {
		many[i] = id.Recipient()
	}
	most := bytes.Repeat([]byte{0}, seal.MaxPayload)
	sealed, err := seal.Seal(header, most, many...)
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) > 1_000_000 {
		t.Errorf("sealed, it has %d bytes", len(sealed))
	}
	if got, err := id.Open(sealed, header, now); err != nil || !bytes.Equal(got, most) {
		t.Errorf("opened %d bytes, error %v", len(got), err)
	}
	if _, err := seal.Seal(header, append(most, 0), id.Recipient()); !errors.Is(err, seal.ErrTooLarge) {
		t.Error(err)
	}
	long := header
	long.UID = strings.Repeat("x", 5000)
	if _, err := seal.Seal(long, nil, id.Recipient()); !errors.Is(err, seal.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := seal.Seal(header, nil); err == nil {
		t.Error("sealed to nobody")
	}
	for _, r := range []string{"", "age1", "ssh-ed25519 AAAA"} {
		if _, err := seal.Seal(header, []byte(secret), id.Recipient(), r); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("recipient %q: %v", r, err)
		}
	}
	if sealed, err := seal.Seal(header, nil, id.Recipient()); err != nil {
		t.Error(err)
	} else if got, err := id.Open(sealed, header, now); err != nil || len(got) != 0 {
		t.Errorf("an empty payload: %q, %v", got, err)
	}
}

// FuzzOpen gives Open any text: it refuses it, with an error of its own.
func FuzzOpen(f *testing.F) {
	id := generate(f)
	sealed, err := seal.Seal(header, []byte(secret), id.Recipient())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed[:len(sealed)/2])
	f.Add(sealed[:len(sealed)-4])
	sealer := id.Sealer(time.Now)
	for _, to := range []seal.Recipient{sealer.Own(), {Key: generate(f).Recipient(), Shared: true}} {
		own, err := sealer.Seal(header, []byte(secret), to)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(own[:len(own)/2])
	}
	f.Add("")
	f.Add(base64.StdEncoding.EncodeToString([]byte("age-encryption.org/v1\n-> X25519 x\nx\n--- x\n")))
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := id.Open(s, header, now); !errors.Is(err, seal.ErrUndecryptable) || got != nil {
			t.Errorf("opened %q, error %v", got, err)
		}
	})
}

// FuzzOpenPlaintext seals any plaintext: what is opened is what follows a header
// that fits.
func FuzzOpenPlaintext(f *testing.F) {
	id := generate(f)
	f.Add(`{"v":1,"purpose":"service_secrets","cluster":"oscar-cluster-a","uid":"0199c3a2","generation":3}` + "\n" + secret)
	f.Add(`{"v":1,"purpose":"service_secrets","cluster":"oscar-cluster-a","uid":"0199c3a2","generation":2}` + "\n")
	f.Add(`{"v":1,"expires":"2020-01-01T00:00:00Z"}` + "\n\n")
	f.Add("\n")
	f.Add(`{"v":1e999}` + "\n")
	f.Fuzz(func(t *testing.T, plain string) {
		got, err := id.Open(encrypt(t, id, plain), header, now)
		head, payload, cut := strings.Cut(plain, "\n")
		var h struct {
			V int `json:"v"`
			seal.Header
		}
		fits := cut && json.Unmarshal([]byte(head), &h) == nil && h.V == 1 &&
			h.Purpose == header.Purpose && h.Cluster == header.Cluster && h.UID == header.UID &&
			h.Generation >= header.Generation && (h.Expires.IsZero() || h.Expires.After(now))
		if fits != (err == nil) || fits && string(got) != payload {
			t.Errorf("%q: opened %q, error %v", plain, got, err)
		}
	})
}
