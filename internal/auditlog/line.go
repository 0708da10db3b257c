package auditlog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Entry is one entry of the audit, as it stands in the store.
type Entry struct {
	ID string
	// Revision of the transaction that wrote it.
	Revision int64
	// Record is its JSON.
	Record []byte
}

// Head is the newest line of a chain; the zero value is that of one without lines.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	// Revision is that of the newest entry, and IDs are those of its transaction.
	Revision int64    `json:"revision"`
	IDs      []string `json:"ids"`
}

// Has says whether the chain has an entry already.
func (h Head) Has(e Entry) bool {
	return e.Revision < h.Revision || e.Revision == h.Revision && slices.Contains(h.IDs, e.ID)
}

// line is what is written, in this order; its hash follows at the end.
type line struct {
	Seq      int64           `json:"seq"`
	Prev     string          `json:"prev"`
	Revision int64           `json:"revision"`
	ID       string          `json:"id"`
	Entry    json.RawMessage `json:"entry"`
}

// maxLine bounds a line in bytes, beyond every entry.
const maxLine = 64 << 10

const hashField = `,"hash":"`

// next is the line of an entry, with its line break, and the head that it makes.
func (h Head) next(e Entry) ([]byte, Head, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line{Seq: h.Seq + 1, Prev: h.Hash, Revision: e.Revision, ID: e.ID, Entry: e.Record}); err != nil {
		return nil, h, fmt.Errorf("entry %s: %w", e.ID, err)
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	hash := hashOf(body)
	out := Head{Seq: h.Seq + 1, Hash: hash, Revision: e.Revision, IDs: []string{e.ID}}
	if e.Revision == h.Revision {
		out.IDs = append(slices.Clone(h.IDs), e.ID)
	}
	return append(slices.Clone(body), hashField+hash+"\"}\n"...), out, nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// parse reads a line and says whether its own hash is right.
func parse(text []byte) (line, string, error) {
	at := bytes.LastIndex(text, []byte(hashField))
	if at < 0 {
		return line{}, "", errors.New("it is no line of an audit log")
	}
	var l line
	if err := json.Unmarshal(append(slices.Clone(text[:at]), '}'), &l); err != nil {
		return line{}, "", fmt.Errorf("it is no line of an audit log: %w", err)
	}
	hash := strings.TrimSuffix(string(text[at+len(hashField):]), `"}`)
	if hash != hashOf(text[:at]) {
		return line{}, "", errors.New("it was changed: its hash is that of another line")
	}
	return l, hash, nil
}

// Verified is what was found in lines that are whole.
type Verified struct {
	Lines       int
	First, Last int64
	// Hash of the last line.
	Hash string
}

// Verifier checks the lines of one chain, which may go over several files.
type Verifier struct {
	Verified
}

// Read checks the lines of a file, which follow those that were read before. The first
// line of all may be any: older files may be gone.
func (v *Verifier) Read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		l, hash, err := parse(lines.Bytes())
		switch {
		case err != nil:
			return fmt.Errorf("line %d: %w", n, err)
		case v.Lines > 0 && l.Seq != v.Last+1:
			return fmt.Errorf("line %d: entry %d follows entry %d: there is a gap, or lines were moved", n, l.Seq, v.Last)
		case v.Lines > 0 && l.Prev != v.Hash:
			return fmt.Errorf("line %d: entry %d does not follow what stands before it: an entry was replaced", n, l.Seq)
		}
		if v.Lines == 0 {
			v.First = l.Seq
		}
		v.Lines++
		v.Last, v.Hash = l.Seq, hash
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("after entry %d: %w", v.Last, err)
	}
	return nil
}
