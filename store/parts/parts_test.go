package parts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

const federation = "f1"

// shelf has parts by their keys.
type shelf map[string]record.Part

func (s shelf) put(of ...parts.Part) (names []string) {
	for _, p := range of {
		s[record.PartKey(federation, p.Name)] = p.Rec
		names = append(names, p.Name)
	}
	return names
}

func (s shelf) get(_ context.Context, key string) (store.KV, error) {
	p, ok := s[key]
	if !ok {
		return store.KV{}, store.ErrNotFound
	}
	value, err := record.Encode(p)
	return store.KV{Key: key, Value: value}, err
}

func TestPartsAreReadAsTheyWereWritten(t *testing.T) {
	for name, tc := range map[string]struct{ script, secret string }{
		"small": {"#!/bin/sh\n", "hunter2"}, "large": {strings.Repeat("x", 1<<20), strings.Repeat("s", 1<<20)},
		"doubled": {strings.Repeat("\"\\\n", 600<<10), strings.Repeat("s", seal.MaxPayload-9)}, "wide": {strings.Repeat("€\u2028", 300<<10), "€"},
	} {
		script, patch := tc.script, fmt.Sprintf(`{"pw":%q}`, tc.secret)
		t.Run(name, func(t *testing.T) {
			text, err := record.Encode(map[string]string{"script": script})
			if err != nil {
				t.Fatal(err)
			}
			s := shelf{}
			of := parts.Text("ann", text)
			for _, p := range of {
				value, err := record.Encode(p.Rec)
				if err != nil || len(value) > 1_300_000 {
					t.Errorf("a part has %d bytes, error %v", len(value), err)
				}
			}
			secrets, key, err := parts.Secrets("ann", []byte(patch))
			if want := (len(patch) + seal.MaxPayload - 1) / seal.MaxPayload; err != nil || len(secrets) != want {
				t.Fatalf("%d parts with secrets, not %d, error %v", len(secrets), want, err)
			}
			for _, p := range secrets {
				if value, err := record.Encode(p.Rec); err != nil || len(value) > 800_000 {
					t.Errorf("a part with secrets has %d bytes, error %v", len(value), err)
				}
			}
			names := s.put(of...)
			first := len(names)
			names = append(names, s.put(parts.Text("ann", []byte(`{"memory":"1Gi"}`))...)...)
			sealed := s.put(secrets...)
			names = append(names, sealed...)
			got, err := parts.Read(t.Context(), s.get, federation, names)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Texts) != 2 || string(got.Texts[0]) != string(text) || string(got.Texts[1]) != `{"memory":"1Gi"}` {
				t.Errorf("%d texts, or others", len(got.Texts))
			}
			if len(got.First) != first || got.First[0] != names[0] || !slices.Equal(got.Secrets, sealed) {
				t.Errorf("the first text is %q, the secrets %q", got.First, got.Secrets)
			}
			opened, err := got.Open(key.Secret(), time.Now())
			if err != nil || string(opened) != patch {
				t.Errorf("%d bytes of secrets, %v", len(opened), err)
			}
			if opened, err = parts.OpenSecrets(t.Context(), s.get, federation, sealed, key.Secret(), time.Now()); err != nil || string(opened) != patch {
				t.Errorf("%d bytes of secrets alone, %v", len(opened), err)
			}
			if _, err := parts.OpenSecrets(t.Context(), s.get, federation, names, key.Secret(), time.Now()); !errors.Is(err, parts.ErrUnusable) {
				t.Errorf("a text is taken for secrets: %v", err)
			}
			if _, err := got.Open(seal.NewKey().Secret(), time.Now()); !errors.Is(err, seal.ErrUndecryptable) {
				t.Errorf("another key opens it: %v", err)
			}
		})
	}
}

func TestPartsThatAreNone(t *testing.T) {
	s := shelf{}
	good := s.put(parts.Text("", []byte(`{}`))...)
	piece := func(p record.Part) string {
		name := record.NewPartName()
		s[record.PartKey(federation, name)] = p
		return name
	}
	sealed := piece(record.Part{Sealed: "x"})
	cut := piece(record.Part{Piece: "{", More: true})
	large := piece(record.Part{Service: json.RawMessage(`{"x":"` + strings.Repeat("x", 5<<20) + `"}`)})
	for name, tc := range map[string]struct {
		names []string
		want  error
	}{
		"none":         {nil, parts.ErrUnusable},
		"many":         {make([]string, 17), parts.ErrUnusable},
		"no name":      {[]string{"../c/a/session"}, parts.ErrUnusable},
		"upper case":   {[]string{strings.ToUpper(good[0])}, parts.ErrUnusable},
		"absent":       {[]string{record.NewPartName()}, store.ErrNotFound},
		"secrets only": {[]string{sealed}, parts.ErrUnusable},
		"cut off":      {append(good, cut), parts.ErrUnusable},
		"too large":    {[]string{large, large}, parts.ErrUnusable},
	} {
		if _, err := parts.Read(t.Context(), s.get, federation, tc.names); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	set, err := parts.Read(t.Context(), s.get, federation, append(good, sealed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Open("no key", time.Now()); !errors.Is(err, parts.ErrUnusable) {
		t.Errorf("no key: %v", err)
	}
	if _, err := set.Open(seal.NewKey().Secret(), time.Now()); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("no envelope: %v", err)
	}
}

// A sealed part that is put in the place of another is not taken for it, and none can be left out.
func TestSecretsOfAnotherPartAreRefused(t *testing.T) {
	s := shelf{}
	text := s.put(parts.Text("", []byte(`{}`))...)
	made, key, err := parts.Secrets("", []byte(`{"pw":"`+strings.Repeat("s", seal.MaxPayload)+`"}`))
	if err != nil || len(made) != 2 {
		t.Fatal(len(made), err)
	}
	sealed := s.put(made...)
	renamed := parts.Part{Name: record.NewPartName(), Rec: made[0].Rec}
	for name, names := range map[string][]string{
		"another name": {s.put(renamed)[0], sealed[1]}, "one is missing": sealed[:1], "the first is missing": sealed[1:],
		"exchanged": {sealed[1], sealed[0]}, "twice": {sealed[0], sealed[1], sealed[1]},
	} {
		set, err := parts.Read(t.Context(), s.get, federation, append(slices.Clone(text), names...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Open(key.Secret(), time.Now()); !errors.Is(err, seal.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
