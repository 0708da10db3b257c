package await_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/test/await"
)

func TestAWaitEnds(t *testing.T) {
	broken, gone := errors.New("broken"), errors.New("gone")
	for name, c := range map[string]struct {
		ok   func(looks int) (bool, error)
		ends time.Duration // of the context, if it ends
		want error
		took time.Duration // at least
	}{
		"when it is true":         {ok: func(looks int) (bool, error) { return looks == 3, nil }},
		"when it cannot be true":  {ok: func(int) (bool, error) { return false, broken }, want: broken},
		"with the context":        {ok: func(int) (bool, error) { return false, nil }, ends: time.Second, want: gone, took: time.Second},
		"when its limit is there": {ok: func(int) (bool, error) { return false, nil }, took: await.Limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.ends > 0 {
					time.AfterFunc(c.ends, func() { cancel(gone) })
				}
				began, looks := time.Now(), 0
				err := await.Try(ctx, "it", func() (bool, error) { looks++; return c.ok(looks) })
				switch {
				case c.took == await.Limit:
					if err == nil {
						t.Error("it waits for ever")
					}
				case !errors.Is(err, c.want):
					t.Errorf("%v; want %v", err, c.want)
				}
				if took := time.Since(began); took < c.took {
					t.Errorf("it gave up after %s", took)
				}
			})
		})
	}
}
