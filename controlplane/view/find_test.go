package view

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestANameThatAllReplicasHaveIsTheCoordinators: OSCAR's own examples name all alike, and its clients cannot name a cluster.
func TestANameThatAllReplicasHaveIsTheCoordinators(t *testing.T) {
	federation := func(uid string, names ...string) *record.Federation {
		f := &record.Federation{V: record.Version, UID: uid, Owner: "alice", Visibility: oscar.VisibilityPublic, Phase: record.PhaseReady}
		for i, name := range names {
			f.Members = append(f.Members, record.Member{
				UID: uid + name + string(rune('a'+i)), ClusterID: string(rune('a' + i)), ServiceName: name, Coordinator: i == 1,
			})
		}
		return f
	}
	stored := func(of ...*record.Federation) *View {
		var kvs []store.KV
		for i, f := range of {
			value, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			kvs = append(kvs, store.KV{Key: record.FederationKey(f.UID), Value: value, ModRevision: int64(i + 1)})
		}
		return Of(kvs...)
	}
	alike, others := federation("u1", "fish", "fish", "fish"), federation("u2", "fish", "other", "fish")
	for name, tc := range map[string]struct {
		view    *View
		cluster string
		want    string
	}{
		"one federation":                   {stored(alike), "", "b"},
		"and a cluster is named":           {stored(alike), "c", "c"},
		"the coordinator has another name": {stored(others), "", ""},
		"two federations":                  {stored(alike, others), "", ""},
	} {
		for _, caller := range []identity.Caller{{Subject: "bob"}, {Subject: "root", Administrator: true}} {
			p, err := tc.view.Find(caller, "fish", tc.cluster)
			if (err != nil) != (tc.want == "") || err == nil && p.At().ClusterID != tc.want {
				t.Errorf("%s, %s: %+v, %v", name, caller.Subject, p, err)
			}
		}
	}
}

// TestAStrangersServiceDoesNotHideTheOwnersMember: whoever makes a public service that is named as somebody's member would
// otherwise have all requests of its owner answered with 409 that name no cluster, as those of OSCAR's clients.
func TestAStrangersServiceDoesNotHideTheOwnersMember(t *testing.T) {
	of := func(uid, owner string, members ...record.Member) store.KV {
		value, err := json.Marshal(&record.Federation{
			V: record.Version, UID: uid, Owner: owner, Visibility: oscar.VisibilityPublic, Phase: record.PhaseReady, Members: members,
		})
		if err != nil {
			t.Fatal(err)
		}
		return store.KV{Key: record.FederationKey(uid), Value: value, ModRevision: 1}
	}
	at := func(cluster, service string, coordinator bool) record.Member {
		return record.Member{UID: cluster + service, ClusterID: cluster, ServiceName: service, Coordinator: coordinator}
	}
	v := Of(of("u1", "alice", at("a", "fish", true), at("b", "fish-b", false)), of("u2", "bob", at("c", "fish-b", true)))
	for subject, want := range map[string]string{"alice": "b", "bob": "c", "carol": ""} {
		p, err := v.Find(identity.Caller{Subject: subject}, "fish-b", "")
		if (err != nil) != (want == "") || err == nil && p.At().ClusterID != want {
			t.Errorf("%s: %+v, %v", subject, p, err)
		}
	}
	if p, err := v.Find(identity.Caller{Subject: "alice"}, "fish-b", "c"); err != nil || p.Rec.Owner != "bob" {
		t.Errorf("where the cluster is named: %+v, %v", p, err)
	}
}

// TestMembersThatStayAreListedOnce, also while a change lists them again.
func TestMembersThatStayAreListedOnce(t *testing.T) {
	stays, added, leaves := record.Member{UID: "stays", ClusterID: "a"}, record.Member{UID: "added", ClusterID: "b"}, record.Member{UID: "leaves", ClusterID: "c"}
	f := &record.Federation{
		Members: []record.Member{stays}, Leaving: []record.Member{leaves},
		Change: &record.Change{Members: []record.Member{stays, added, {Type: oscar.MemberEndpoint, URL: "https://e"}}},
	}
	var got []string
	for _, m := range MembersOf(f) {
		got = append(got, m.UID)
	}
	if !slices.Equal(got, []string{"stays", "leaves", "added"}) {
		t.Errorf("%q", got)
	}
}
