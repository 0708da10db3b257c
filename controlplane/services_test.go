package controlplane_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestListingAThousandServicesAsksEtcdAFewTimes(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		faults := new(storetest.Faults)
		st := virtual.NewNetwork(t, embedded.Config{}).Open(t, "controlplane", store.Config{DialOptions: faults.DialOptions()})
		const n, gone = 1000, 500
		var want []string
		for first := 0; first < n; first += 50 {
			_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				for i := first; i < first+50; i++ {
					uid, names := fmt.Sprintf("f%04d", i), []string{fmt.Sprintf("s%04d", i), fmt.Sprintf("s%04d", n+n-i)}
					tx.Put(record.FederationKey(uid), record.Federation{
						V: record.Version, UID: uid, Owner: identity.Admin, GroupID: names[0], Generation: 1, Phase: record.PhaseReady,
						Topology: "star", Delegation: "static",
						Members: []record.Member{
							{Type: "oscar", ClusterID: "a", ServiceName: names[0], UID: uid + "a", Coordinator: true},
							{Type: "oscar", ClusterID: "b", ServiceName: names[1], UID: uid + "b"},
						},
					})
					if i == gone {
						continue // deleted between the two reads
					}
					tx.Put(record.HistoryKey(uid, 1), record.History{V: record.Version,
						Service: fmt.Appendf(nil, `{"name":%q,"image":%q,"federation":{}}`, names[0], uid)})
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			if uid := fmt.Sprintf("f%04d", i); i != gone {
				want = append(want, fmt.Sprintf("s%04d %s", i, uid), fmt.Sprintf("s%04d %s", n+n-i, uid))
			}
		}
		slices.Sort(want)
		cp := startControlPlane(t, st, newIdentity(t))

		calls := func() int { return faults.Calls("/etcdserverpb.KV/Range") + faults.Calls("/etcdserverpb.KV/Txn") }
		before := calls()
		var got []string
		page, err := cp.Federations.Services(t.Context(), admin, listing.Query{}, false)
		if err == nil {
			err = page.Each(func(s federations.ListedService) error {
				got = append(got, s.Service.Name+" "+s.Service.Image)
				return nil
			})
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %d services, want %d: %v", err, len(got), len(want), got)
		}
		// The instance itself looks at something now and then.
		if asked := calls() - before; asked > 50 {
			t.Errorf("etcd was asked %d times for %d federations", asked, n)
		}
	})
}
