package pki_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/pki"
)

// followed is a file of authorities, who follows it, and what that says.
type followed struct {
	*pki.Roots
	t    *testing.T
	file string
	log  bytes.Buffer
}

func follow(t *testing.T, first []byte) *followed {
	t.Helper()
	f := &followed{t: t, file: filepath.Join(t.TempDir(), "ca.crt")}
	f.write(first)
	var err error
	if f.Roots, err = pki.OpenRoots(f.file, slog.New(slog.NewTextHandler(&f.log, nil))); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *followed) write(text []byte) {
	f.t.Helper()
	if err := os.WriteFile(f.file, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// Another authority is taken over; what is none, and a file that is gone, are not, and that is told once.
func TestRootsFollowTheirFile(t *testing.T) {
	one, two := authority(t).CertPEM(), authority(t).CertPEM()
	both := slices.Concat(one, two)
	f := follow(t, one)
	has := func(what string, want []byte) {
		t.Helper()
		same, err := pki.NewRoots(want)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if !bytes.Equal(f.PEM(), want) || !f.Pool().Equal(same.Pool()) {
				t.Fatalf("%s: %s", what, f.PEM())
			}
		}
	}
	has("at first", one)
	if first := f.Pool(); first != f.Pool() {
		t.Error("a file that did not change has another pool")
	}
	f.write(both)
	has("with another one", both)
	f.write([]byte("no certificate"))
	has("with none in it", both)
	f.write(make([]byte, 2<<20))
	has("of 2 MiB", both)
	if err := os.Remove(f.file); err != nil {
		t.Fatal(err)
	}
	has("without a file", both)
	f.write(two)
	has("with the other one alone", two)
	if said := f.log.String(); strings.Count(said, "cannot be used") != 3 || strings.Count(said, "are in use") != 2 {
		t.Errorf("it said %s", said)
	}
}

// Each time that the file is gone is told, once.
func TestAFileOfAuthoritiesThatIsGoneIsTold(t *testing.T) {
	one, other := authority(t).CertPEM(), authority(t).CertPEM()
	f := follow(t, one)
	for round, next := range [][]byte{other, slices.Concat(one, other), one} {
		if err := os.Remove(f.file); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			f.Pool()
		}
		if said := strings.Count(f.log.String(), "cannot be used"); said != round+1 {
			t.Errorf("when it is gone for the %d. time it is told %d times", round+1, said)
		}
		f.write(next)
		f.Pool()
	}
}

func TestRootsThatAreNone(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/nowhere/ca.crt", empty} {
		if _, err := pki.OpenRoots(file, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s was opened", file)
		}
	}
	if _, err := pki.NewRoots([]byte("none")); err == nil {
		t.Error("a text without a certificate is taken")
	}
	if system := (*pki.Roots)(nil); system.Pool() != nil || system.PEM() != nil {
		t.Error("the system's are some of ours")
	}
}
