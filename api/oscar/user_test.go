package oscar_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
)

func TestHowOSCARCallsUsers(t *testing.T) {
	for subject, want := range map[string]string{
		"62bb11b4@egi.eu": "62bb11b4", "62bb11b4@egi.eu/Alice": "62bb11b4", "a@b@c": "a", "": "", "@egi.eu": "@egi.eu",
		"0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21": "0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21", "Alice@egi.eu": "Alice", "ALICE@egi.eu": "ALICE@egi.eu",
	} {
		if got := oscar.ShortSubject(subject); got != want {
			t.Errorf("%q is called %q, want %q", subject, got, want)
		}
	}
}

func TestWhoseTokenStartsAJob(t *testing.T) {
	const egi, other = "62bb11b4@egi.eu", "0199c3a2-5f0e"
	for _, c := range []struct {
		visibility string
		allowed    []string
		owner      string
		want       bool
	}{
		{"", nil, other, true}, {"private", nil, other, true}, {"restricted", nil, other, true}, {"public", nil, other, true},
		{"", nil, egi, false}, {"private", nil, egi, false}, {"public", nil, egi, true}, {"restricted", []string{egi, "bob"}, egi, false},
		{"restricted", []string{"bob", " 62bb11b4 "}, egi, true}, {"private", []string{"62bb11b4"}, egi, false},
	} {
		if got := oscar.StartedByOwner(&oscar.Service{Visibility: c.visibility, AllowedUsers: c.allowed}, c.owner); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
