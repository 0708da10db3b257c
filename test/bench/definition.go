package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// mostForLargest is by how much the live heap of the control plane with etcd may grow for the largest
// definition on the largest number of members.
const mostForLargest = 32 << 20

// largest measures what the largest definition takes of the control plane's memory. It fails when that
// keeps more than is promised: a definition is held once, not once for each of its members.
func largest(ctx context.Context, o options, out *report) (err error) {
	o.inside = true
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.grow(ctx, oscar.MaxReplicas, 0); err != nil {
		return err
	}
	// The first creation fills what is kept for all later ones.
	if _, err := w.create(ctx, "first", 0, oscar.MaxReplicas); err != nil {
		return err
	}
	before, err := liveIn(ctx, w.inside)
	if err != nil {
		return err
	}
	if _, err := askInside(ctx, w.inside, "watch", ""); err != nil {
		return err
	}
	body := largestDefinition("largest")
	if err := w.profiled(ctx, "largest", func() error {
		_, err := w.call(ctx, http.MethodPost, "/system/services?wait=2m", body, http.StatusCreated)
		return err
	}); err != nil {
		return err
	}
	most, err := bytesIn(ctx, w.inside, "most")
	if err != nil {
		return err
	}
	after, err := liveIn(ctx, w.inside)
	if err != nil {
		return err
	}
	out.heading(fmt.Sprintf("A definition of %s on %d members", kib(int64(len(body))), oscar.MaxReplicas))
	out.table([]string{"heap of the control plane with etcd", "before", "at most, with what is not collected yet", "after"}, [][]string{
		{"", mib(before), mib(most), mib(after)},
	})
	if after-before > mostForLargest {
		return fmt.Errorf("the largest definition keeps %s of memory, and %s are allowed", mib(after-before), mib(mostForLargest))
	}
	return nil
}

// largestDefinition has a script and annotations about as large as they may be.
func largestDefinition(name string) []byte {
	body := bytes.Replace(definition(name, 0, oscar.MaxReplicas), []byte(`"image"`),
		[]byte(`"annotations":{"long":"`+strings.Repeat("y", 110<<10)+`"},"image"`), 1)
	script := []byte(`"script":"`)
	return bytes.Replace(body, script, append(script, strings.Repeat("x", 510<<10)...), 1)
}
