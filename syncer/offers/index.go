package offers

import (
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// index finds the offer of a Job without reading all offers, since a full comparison looks at
// every Job. Its answers are of the revision of the view that it returns with them.
// It is safe for concurrent use.
type index struct {
	feed *store.Feed

	mu sync.Mutex
	// locations has the Job of each offer, by the id of the offer; nil when the offer cannot
	// be read.
	locations map[string]*kube.JobKey
	// ids are the ids that a Job is offered as, sorted: one, unless a user has made another Job
	// of the same name.
	ids map[kube.JobKey][]string
}

// newIndex follows a mirror until it is closed.
func newIndex(mirror *store.Mirror) *index {
	return &index{feed: mirror.Feed(), locations: map[string]*kube.JobKey{}, ids: map[kube.JobKey][]string{}}
}

func (x *index) close() { x.feed.Close() }

// at finds the offer of a Job; id is empty for none. standing counts all offers.
func (x *index) at(key kube.JobKey) (view *store.MirrorView, id string, standing int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	keys, view := x.feed.Take()
	for _, key := range keys {
		if ref := record.ParseKey(key); ref.Kind == record.KindOffer {
			kv, exists := view.KV(key)
			x.note(ref.Name, kv, exists)
		}
	}
	if ids := x.ids[key]; len(ids) > 0 {
		id = ids[len(ids)-1]
	}
	return view, id, len(x.locations)
}

// note takes one offer over. It needs mu.
func (x *index) note(id string, kv store.KV, exists bool) {
	if was := x.locations[id]; was != nil {
		i := slices.Index(x.ids[*was], id)
		if x.ids[*was] = slices.Delete(x.ids[*was], i, i+1); len(x.ids[*was]) == 0 {
			delete(x.ids, *was)
		}
	}
	if delete(x.locations, id); !exists {
		return
	}
	o, err := store.Decode[record.Offer](kv)
	if err != nil {
		x.locations[id] = nil
		return
	}
	place := locationOf(o)
	x.locations[id] = &place
	i, _ := slices.BinarySearch(x.ids[place], id)
	x.ids[place] = slices.Insert(x.ids[place], i, id)
}
