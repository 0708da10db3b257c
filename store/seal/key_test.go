package seal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/seal"
)

func TestAKeyOpensWhatIsSealedToIt(t *testing.T) {
	now := time.Now()
	h := seal.Header{Purpose: "part", UID: "name"}
	k := seal.NewKey()
	sealed, err := k.Seal(h, []byte("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := seal.ParseKey(k.Secret())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Open(sealed, h, now); err != nil || string(got) != "hunter2" {
		t.Errorf("%q, %v", got, err)
	}
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := id.Open(sealed, h, now); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("an identity opens it: %v", err)
	}
	if _, err := seal.NewKey().Open(sealed, h, now); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("another key opens it: %v", err)
	}
	if _, err := k.Open(sealed, seal.Header{Purpose: "part", UID: "other"}, now); !errors.Is(err, seal.ErrMismatch) {
		t.Errorf("it is taken for another: %v", err)
	}
	toIdentity, err := seal.Seal(h, []byte("hunter2"), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(toIdentity, h, now); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("what is sealed to an identity is opened: %v", err)
	}
	for _, text := range []string{"", "x", k.Secret() + "A", strings.Repeat("!", 43)} {
		if _, err := seal.ParseKey(text); err == nil || strings.Contains(err.Error(), k.Secret()) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Contains(printed, k.Secret()) || printed != "a key a key a key a key" {
		t.Errorf("it prints as %s", printed)
	}
}
