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

// Another authority is taken over; what is none, and a file that is gone, are not, and that is told once.
func TestRootsFollowTheirFile(t *testing.T) {
	one, two := authority(t).CertPEM(), authority(t).CertPEM()
	both := slices.Concat(one, two)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one)
	var log bytes.Buffer
	roots, err := pki.OpenRoots(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	has := func(what string, want []byte) {
		t.Helper()
		same, err := pki.NewRoots(want)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if !bytes.Equal(roots.PEM(), want) || !roots.Pool().Equal(same.Pool()) {
				t.Fatalf("%s: %s", what, roots.PEM())
			}
		}
	}
	has("at first", one)
	if first := roots.Pool(); first != roots.Pool() {
		t.Error("a file that did not change has another pool")
	}
	write(both)
	has("with another one", both)
	write([]byte("no certificate"))
	has("with none in it", both)
	write(make([]byte, 2<<20))
	has("of 2 MiB", both)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	has("without a file", both)
	write(two)
	has("with the other one alone", two)
	if said := log.String(); strings.Count(said, "cannot be used") != 3 || strings.Count(said, "are in use") != 2 {
		t.Errorf("it said %s", said)
	}
}

// TestAFileOfAuthoritiesThatIsGoneIsNotTold: it was told only after another change that was of no use.
func TestAFileOfAuthoritiesThatIsGoneIsNotTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	one, other := authority(t).CertPEM(), authority(t).CertPEM()
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one)
	var log bytes.Buffer
	roots, err := pki.OpenRoots(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for round, next := range [][]byte{other, slices.Concat(one, other), one} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			roots.Pool()
		}
		if said := strings.Count(log.String(), "cannot be used"); said != round+1 {
			t.Errorf("when it is gone for the %d. time it is told %d times", round+1, said)
		}
		write(next)
		roots.Pool()
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
