package parts_test

import (
	"context"
	"encoding/json"
	"errors"
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
	for name, script := range map[string]string{
		"small": "#!/bin/sh\n", "large": strings.Repeat("x", 1<<20), "doubled": strings.Repeat("\"\\\n", 600<<10), "wide": strings.Repeat("€\u2028", 300<<10),
	} {
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
			secret, key, err := parts.Secrets("ann", []byte(`{"pw":"hunter2"}`))
			if err != nil {
				t.Fatal(err)
			}
			names := s.put(of...)
			first := len(names)
			names = append(names, s.put(parts.Text("ann", []byte(`{"memory":"1Gi"}`))...)...)
			names = append(names, s.put(secret)...)
			got, err := parts.Read(t.Context(), s.get, federation, names)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Texts) != 2 || string(got.Texts[0]) != string(text) || string(got.Texts[1]) != `{"memory":"1Gi"}` {
				t.Errorf("%d texts, or others", len(got.Texts))
			}
			if len(got.First) != first || got.First[0] != names[0] || got.Secret != secret.Name {
				t.Errorf("the first text is %q, the secrets %q", got.First, got.Secret)
			}
			patch, err := got.Open(key.Secret(), time.Now())
			if err != nil || string(patch) != `{"pw":"hunter2"}` {
				t.Errorf("%q, %v", patch, err)
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

// A sealed part that is put in the place of another is not taken for it.
func TestSecretsOfAnotherPartAreRefused(t *testing.T) {
	s := shelf{}
	names := s.put(parts.Text("", []byte(`{}`))...)
	one, key, err := parts.Secrets("", []byte(`{"pw":"old"}`))
	if err != nil {
		t.Fatal(err)
	}
	one.Name = record.NewPartName()
	set, err := parts.Read(t.Context(), s.get, federation, append(names, s.put(one)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Open(key.Secret(), time.Now()); !errors.Is(err, seal.ErrMismatch) {
		t.Errorf("%v", err)
	}
}
