package federations

import (
	"context"
	"reflect"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// WatchReplicas calls fn with a federation as the named replica sees it: at once when the store
// is not at the revision since, and then at each change of the view. A store that is behind
// since was restored: what the caller saw last did not happen in its history. When views come
// faster than fn takes them, fn gets only the newest. It ends with ctx, with fn's error, or
// with not_found when the service is gone, also where one of another owner has the name.
//
// Only the first view is read linearizably. Later ones come from the state, which is whole at
// each revision and does not go back, so a thousand watchers of one event cost etcd nothing.
func (c *Controller) WatchReplicas(ctx context.Context, caller identity.Caller, service, clusterID string, since int64, fn func(*view.Replicas) error) error {
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	w := c.state.Waiters.Add(view.Subject{Service: service})
	defer w.Drop()
	absent := view.NoService(service, "")
	var last *view.Replicas
	for {
		view, err := c.seenBy(caller, service, clusterID)
		switch {
		case err != nil:
			return err
		case last != nil && view.Owner != last.Owner:
			return absent
		}
		if news(last, view, since) {
			if err := fn(view); err != nil {
				return err
			}
		}
		last = view
		select {
		case <-w.Wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// news says whether a view differs from the last one or, for the first one, from what the
// caller saw at the revision since.
func news(last, view *view.Replicas, since int64) bool {
	if last == nil {
		return view.StreamRevision != since
	}
	before := *last
	before.StreamRevision = view.StreamRevision
	return !reflect.DeepEqual(before, *view)
}
