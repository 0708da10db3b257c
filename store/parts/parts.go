package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

const (
	// maxParts bounds how many parts a record may name, and maxBytes what they are together.
	maxParts = 16
	maxBytes = 8 << 20
	// maxService is the longest text in one part, and pieceBytes how it is cut beyond: a piece
	// is a string in JSON, which takes two bytes for some.
	maxService = 1 << 20
	pieceBytes = maxService / 2
)

// ErrUnusable says that parts are not what a control plane writes.
var ErrUnusable = errors.New("the parts of the definition are not usable")

// Get reads one key; an absent one is store.ErrNotFound.
type Get func(ctx context.Context, key string) (store.KV, error)

// Set is what the parts that a record names are.
type Set struct {
	// Texts are a service without secrets, and merge patches on it. First are the names of the
	// parts that are the service.
	Texts [][]byte
	First []string
	// Secrets name the parts with the secrets, in their order; empty when there are none.
	Secrets []string
	sealed  []string
}

// Read reads the parts that a record of a federation names: a text, and perhaps secrets.
func Read(ctx context.Context, get Get, federation string, names []string) (*Set, error) {
	out, err := read(ctx, get, federation, names)
	if err == nil && len(out.Texts) == 0 {
		return nil, errNoText
	}
	return out, err
}

// errNoText says that parts are none of a text, or not all.
var errNoText = fmt.Errorf("%w: they are no whole text", ErrUnusable)

func read(ctx context.Context, get Get, federation string, names []string) (*Set, error) {
	if len(names) > maxParts {
		return nil, fmt.Errorf("%w: there are %d, at most %d are possible", ErrUnusable, len(names), maxParts)
	}
	out := &Set{}
	bytes, piece, open := 0, []byte(nil), []string(nil)
	for _, name := range names {
		if !record.IsPartName(name) {
			return nil, fmt.Errorf("%w: %q is no name of a part", ErrUnusable, name)
		}
		kv, err := get(ctx, record.PartKey(federation, name))
		if err != nil {
			return nil, fmt.Errorf("part: %w", err)
		}
		if bytes += len(kv.Value); bytes > maxBytes {
			return nil, fmt.Errorf("%w: they have more than %d bytes", ErrUnusable, maxBytes)
		}
		part, err := store.Decode[record.Part](kv)
		if err != nil {
			return nil, err
		}
		switch {
		case part.Sealed != "":
			out.Secrets, out.sealed = append(out.Secrets, name), append(out.sealed, part.Sealed)
			continue
		case part.Piece != "":
			piece, open = append(piece, part.Piece...), append(open, name)
			if part.More {
				continue
			}
		default:
			piece, open = part.Service, []string{name}
		}
		if len(out.Texts) == 0 {
			out.First = open
		}
		out.Texts = append(out.Texts, piece)
		piece, open = nil, nil
	}
	if len(open) > 0 {
		return nil, errNoText
	}
	return out, nil
}

// Open is the merge patch with the secrets that the records share, by the key of their parts.
func (s *Set) Open(key string, now time.Time) ([]byte, error) {
	if len(s.Secrets) == 0 {
		return []byte(noSecrets), nil
	}
	k, err := seal.ParseKey(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	var out []byte
	for i, name := range s.Secrets {
		piece, err := k.Open(s.sealed[i], headerOf(name, i, len(s.Secrets)), now)
		if err != nil {
			return nil, err
		}
		out = append(out, piece...)
	}
	return out, nil
}

// headerOf is that of the envelope of one of so many parts with secrets: none can be left out, and
// none can stand in the place of another.
func headerOf(name string, i, of int) seal.Header {
	h := seal.Header{Purpose: seal.PurposePart, UID: name}
	if of > 1 {
		h.Purpose = fmt.Sprintf("%s %d of %d", seal.PurposePart, i+1, of)
	}
	return h
}

// Changes reads what an envelope beside parts holds.
func Changes(payload []byte) (*record.SealedChanges, error) {
	out := &record.SealedChanges{}
	if json.Unmarshal(payload, out) != nil { // whose error could quote what it read
		return nil, fmt.Errorf("%w: the changes beside them cannot be read", ErrUnusable)
	}
	return out, nil
}

// Spec is what a spec with these parts stands for: a service without secrets, and the merge patch
// with them. changes and payload are the spec's own: its merge patch, and what its envelope holds.
func (s *Set) Spec(changes, payload []byte, now time.Time) (service, secrets []byte, err error) {
	own, err := Changes(payload)
	if err != nil {
		return nil, nil, err
	}
	common, err := s.Open(own.Key, now)
	if err != nil {
		return nil, nil, err
	}
	if service, err = oscar.MergePatch(s.Texts[0], append(slices.Clone(s.Texts[1:]), changes)...); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if secrets, err = oscar.MergePatch(common, own.Changes); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return service, secrets, nil
}

// OpenSecrets reads and opens parts with secrets alone.
func OpenSecrets(ctx context.Context, get Get, federation string, names []string, key string, now time.Time) ([]byte, error) {
	set, err := read(ctx, get, federation, names)
	if err != nil {
		return nil, err
	}
	if len(set.Texts) > 0 || len(set.Secrets) == 0 {
		return nil, fmt.Errorf("%w: they are no secrets alone", ErrUnusable)
	}
	return set.Open(key, now)
}

// Part is a part that is to be written.
type Part struct {
	Name string
	Rec  record.Part
}

// Text makes the parts of a text, which is JSON.
func Text(owner string, text []byte) []Part {
	part := func(p record.Part) Part {
		p.V, p.Owner = record.Version, owner
		return Part{Name: record.NewPartName(), Rec: p}
	}
	if len(text) <= maxService {
		return []Part{part(record.Part{Service: text})}
	}
	var out []Part
	for len(text) > 0 {
		n := min(pieceBytes, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		out = append(out, part(record.Part{Piece: string(text[:n]), More: n < len(text)}))
		text = text[n:]
	}
	return out
}

// noSecrets is the merge patch of a definition without secrets.
const noSecrets = "{}"

// Secrets makes the parts of a merge patch with secrets, and the key that opens them.
func Secrets(owner string, patch []byte) ([]Part, seal.Key, error) {
	var out []Part
	key, pieces := seal.NewKey(), slices.Collect(slices.Chunk(patch, seal.MaxPayload))
	for i, piece := range pieces {
		name := record.NewPartName()
		sealed, err := key.Seal(headerOf(name, i, len(pieces)), piece)
		if err != nil {
			return nil, key, err
		}
		out = append(out, Part{Name: name, Rec: record.Part{V: record.Version, Owner: owner, Sealed: sealed}})
	}
	return out, key, nil
}
