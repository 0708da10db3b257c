package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
)

func TestEachReadsManyAtOnce(t *testing.T) {
	s, faults := open(t, store.Config{RequestTimeout: time.Minute, Deadline: time.Minute})
	const n = 300
	if _, err := write(t, s, "/t/", n, 10, 0); err != nil {
		t.Fatal(err)
	}
	var keys, want []string
	for i := range n {
		key := fmt.Sprintf("/t/%05d", n-1-i)
		keys, want = append(keys, key, key+"/absent"), append(want, key)
	}
	before, _ := faults.Transactions()
	var got []string
	err := s.Each(t.Context(), keys, func(kv store.KV) error {
		got = append(got, kv.Key)
		return nil
	})
	after, _ := faults.Transactions()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: got %v", err, got)
	}
	if after-before != 5 {
		t.Errorf("%d transactions for %d keys, want 5", after-before, len(keys))
	}
	stop := errors.New("enough")
	if err := s.Each(t.Context(), keys, func(store.KV) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want what the function said", err)
	}
}

// 128 values of a megabyte would be an answer of 128 MB.
func TestEachDoesNotReadMoreThanFits(t *testing.T) {
	s, faults := open(t, store.Config{RequestTimeout: time.Minute, Deadline: time.Minute})
	const n, size = 12, 1_300_000
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("/t/%05d", i))
		if _, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.PutBytes(keys[i], bytes.Repeat([]byte("x"), size))
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := faults.Transactions()
	read := 0
	err := s.Each(t.Context(), keys, func(kv store.KV) error {
		if kv.Key != keys[read] || len(kv.Value) != size {
			return fmt.Errorf("%s: %d bytes", kv.Key, len(kv.Value))
		}
		read++
		return nil
	})
	after, _ := faults.Transactions()
	if err != nil || read != n {
		t.Errorf("%d of %d: %v", read, n, err)
	}
	// Twelve and six are refused; three fit, and then one at a time fills half of an answer.
	if after-before != 2+1+9 {
		t.Errorf("%d transactions, want 12", after-before)
	}
}
