package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// Txn gathers what one try of an Update is to write, and what it expects. It is
// all applied in one revision, or nothing is. A later write of a key takes the
// place of an earlier one. Mistakes in its use end the Update with an error.
type Txn struct {
	view View
	// mirrored is what mirrors have of a key that is written and was not read.
	mirrored func(key string) (KV, bool)

	marker  string
	writes  map[string]*write
	order   []string
	expects []expectation
	err     error
}

// write puts or deletes one key.
type write struct {
	key    string
	value  []byte
	delete bool
	// prefix says that key stands for every key that begins with it.
	prefix bool
	lease  int64
	touch  bool
}

// expectation is a comparison that must hold for the transaction to be applied.
type expectation struct {
	key      string
	revision int64
	kind     expectationKind
}

type expectationKind int

const (
	expectMod       expectationKind = iota // mod revision; 0 for absent
	expectAbsent                           // the key is absent, and its presence is ErrExists
	expectSession                          // create revision of a session's key
	expectEmpty                            // no key with this prefix exists
	expectUnwritten                        // no key with this prefix was written after the revision
)

func newTxn(view View, marker string) *Txn {
	return &Txn{view: view, marker: marker, mirrored: func(string) (KV, bool) { return KV{}, false }, writes: make(map[string]*write)}
}

func (a *attempt) newTxn(view View) *Txn {
	tx := newTxn(view, a.update.Marker)
	tx.mirrored = a.store.mirrored
	return tx
}

// Put writes a record as one line of JSON. What a newer version has written into the
// key, and the record's type does not know, stays: see record.KeepUnknown. A put of what
// the key holds already, in the view, is left out: see Touch.
func (tx *Txn) Put(key string, rec any) {
	if value, ok := tx.encode(key, rec); ok {
		tx.PutBytes(key, value)
	}
}

// encode is false when the record cannot be written, which ends the Update.
func (tx *Txn) encode(key string, rec any) ([]byte, bool) {
	value, err := record.Encode(rec)
	if err == nil {
		value, err = tx.keepUnknown(key, value, rec)
	}
	if err != nil {
		tx.fail(fmt.Errorf("put %s: %w", key, err))
		return nil, false
	}
	return value, true
}

// keepUnknown adds to a record's bytes what it does not know of the ones that are stored.
// What was taken over must still be there when the transaction is applied.
func (tx *Txn) keepUnknown(key string, value []byte, rec any) ([]byte, error) {
	stored, present := tx.view.KV(key)
	if !tx.view.read(key) {
		stored, present = tx.mirrored(key)
	}
	if !present {
		return value, nil
	}
	kept, err := record.KeepUnknown(stored.Value, value, rec)
	if err == nil && !bytes.Equal(kept, value) {
		tx.ExpectRevision(key, stored.ModRevision)
	}
	return kept, err
}

// PutBytes writes bytes as they are.
func (tx *Txn) PutBytes(key string, value []byte) {
	tx.add(write{key: key, value: value})
}

// Delete removes a key. Removing a key that is absent in the view is left out.
func (tx *Txn) Delete(key string) { tx.add(write{key: key, delete: true}) }

// DeletePrefix removes every key with a prefix, whatever stands there when the
// transaction is applied. No other write of the transaction may be below it.
func (tx *Txn) DeletePrefix(prefix string) { tx.add(write{key: prefix, delete: true, prefix: true}) }

// Touch makes a put of the key be sent even if it changes nothing, so that the
// key's mod revision becomes that of this transaction.
func (tx *Txn) Touch(key string) {
	if w := tx.writes[key]; w != nil {
		w.touch = true
		return
	}
	tx.fail(fmt.Errorf("touch %s: put it first", key))
}

// Expect demands that a key is as in the view: at the same mod revision, or absent.
func (tx *Txn) Expect(key string) {
	if !tx.view.read(key) {
		tx.fail(fmt.Errorf("expect %s: it is not among the keys of the update", key))
		return
	}
	tx.expect(expectation{key: key, revision: tx.view.modRevision(key), kind: expectMod})
}

// ExpectAbsent demands that a key does not exist; otherwise the update ends with
// ErrExists.
func (tx *Txn) ExpectAbsent(key string) { tx.expect(expectation{key: key, kind: expectAbsent}) }

// ExpectRevision demands that a key was last written at a mod revision (0:
// absent); otherwise the update ends with a *ConflictError.
func (tx *Txn) ExpectRevision(key string, revision int64) {
	tx.expect(expectation{key: key, revision: revision, kind: expectMod})
}

// ExpectEmpty demands that no key with a prefix exists; otherwise the update ends
// with a *ConflictError, unless Build looks again and decides otherwise.
func (tx *Txn) ExpectEmpty(prefix string) { tx.expect(expectation{key: prefix, kind: expectEmpty}) }

// ExpectUnwritten demands that no key with a prefix was written after a revision; a deletion is no
// write. Otherwise Build is called again, and has to look at those keys at a newer revision.
func (tx *Txn) ExpectUnwritten(prefix string, revision int64) {
	tx.expect(expectation{key: prefix, revision: revision, kind: expectUnwritten})
}

// ExpectSession demands that the session still owns its key; otherwise the update
// ends with ErrSessionLost. This is what fences a stale owner.
func (tx *Txn) ExpectSession(x *Session) {
	tx.expect(expectation{key: x.cfg.Key, revision: x.created, kind: expectSession})
}

func (tx *Txn) expect(e expectation) {
	if !slices.Contains(tx.expects, e) {
		tx.expects = append(tx.expects, e)
	}
}

func (tx *Txn) add(w write) {
	if w.key == "" {
		tx.fail(errors.New("a write needs a key"))
		return
	}
	if tx.writes[w.key] == nil {
		tx.order = append(tx.order, w.key)
	}
	tx.writes[w.key] = &w
}

func (tx *Txn) fail(err error) {
	if tx.err == nil {
		tx.err = err
	}
}

// effective returns the writes that change something, in the order in which
// they were first named. The marker goes with whatever else is written: without
// it, a lost answer could not be told from a lost request.
func (tx *Txn) effective() []write {
	var out []write
	for _, key := range tx.order {
		if w := tx.writes[key]; tx.changes(w) {
			out = append(out, *w)
		}
	}
	if w := tx.writes[tx.marker]; w != nil && len(out) > 0 && !tx.changes(w) {
		out = append(out, *w)
	}
	return out
}

func (tx *Txn) changes(w *write) bool {
	have, present := tx.view.KV(w.key)
	if w.delete {
		return present || !tx.view.read(w.key)
	}
	return w.touch || w.lease != 0 || !present || have.Lease != 0 || !bytes.Equal(have.Value, w.value)
}

// unmet returns why the transaction cannot succeed on the values of the view:
// an expectation that Build states again although it was shown that it does not
// hold. Keys that the view does not have are left to etcd.
func (tx *Txn) unmet() error {
	for _, e := range tx.expects {
		if !tx.view.read(e.key) {
			continue
		}
		kv, _ := tx.view.KV(e.key)
		switch {
		case e.kind == expectSession && kv.CreateRevision != e.revision:
			return fmt.Errorf("%s: %w", e.key, ErrSessionLost)
		case e.kind == expectAbsent && kv.ModRevision != 0:
			return fmt.Errorf("%s: %w", e.key, ErrExists)
		case e.kind == expectMod && kv.ModRevision != e.revision:
			return &ConflictError{Key: e.key, Want: e.revision, Have: kv.ModRevision}
		}
	}
	return nil
}
