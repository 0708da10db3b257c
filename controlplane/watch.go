package controlplane

import (
	"context"
	"reflect"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// WatchReplicas calls fn with a federation as the named replica sees it: at once
// when it is newer than the store revision since, and then at each change of the
// view. Views that come faster than fn takes them are told once, by the newest. It
// ends with ctx, with fn's error, or with not_found when the service is gone.
func (c *ControlPlane) WatchReplicas(ctx context.Context, caller identity.Caller, service, clusterID string, since int64, fn func(*Replicas) error) error {
	var last *Replicas
	for {
		changed := c.state.watch()
		view, err := c.Replicas(ctx, caller, service, clusterID)
		if err != nil {
			return err
		}
		c.state.read(func() { view.StreamRevision = c.state.revision })
		revision := view.StreamRevision
		if last != nil {
			view.StreamRevision = last.StreamRevision
		}
		if last == nil && revision > since || last != nil && !reflect.DeepEqual(last, view) {
			view.StreamRevision = revision
			if err := fn(view); err != nil {
				return err
			}
		}
		last = view
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
