package session

import (
	"context"
	"time"
)

// Outlive is a context for what must not be cut off when ctx ends, as a write to OSCAR: it ends a grace
// after ctx. release frees what it holds.
func Outlive(ctx context.Context, grace time.Duration) (longer context.Context, release func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}
