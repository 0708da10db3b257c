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
			p, err := tc.view.FindWithResult(caller, "fish", tc.cluster)
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
		p, err := v.FindWithResult(identity.Caller{Subject: subject}, "fish-b", "")
		if (err != nil) != (want == "") || err == nil && p.At().ClusterID != want {
			t.Errorf("%s: %+v, %v", subject, p, err)
		}
	}
	if p, err := v.FindWithResult(identity.Caller{Subject: "alice"}, "fish-b", "c"); err != nil || p.Rec.Owner != "bob" {
		t.Errorf("where the cluster is named: %+v, %v", p, err)
	}
}

// TestAFailedCreationIsItsOwnersAnswer to what became of it, beside another's service of the name; jobs go to that
// service.
func TestAFailedCreationIsItsOwnersAnswer(t *testing.T) {
	of := func(uid, owner string, phase record.Phase, cluster string) store.KV {
		value, err := json.Marshal(&record.Federation{
			V: record.Version, UID: uid, Owner: owner, GroupID: "fish", Visibility: oscar.VisibilityPublic, Phase: phase,
			Members: []record.Member{{UID: uid + "1", ClusterID: cluster, ServiceName: "fish", Coordinator: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return store.KV{Key: record.FederationKey(uid), Value: value, ModRevision: 1}
	}
	bobs, failed := of("u1", "bob", record.PhaseReady, "b"), of("u2", "alice", record.PhaseRolledBack, "a")
	for name, tc := range map[string]struct {
		there                []store.KV
		subject, cluster     string
		used, meant, ofGroup string
	}{
		"her own":                        {[]store.KV{bobs, failed}, "alice", "", "u1", "u2", "u2"},
		"on the other's cluster":         {[]store.KV{bobs, failed}, "alice", "b", "u1", "u1", "u2"},
		"on the cluster of hers":         {[]store.KV{bobs, failed}, "alice", "a", "u2", "u2", "u2"},
		"another user":                   {[]store.KV{bobs, failed}, "carol", "", "u1", "u1", "u1"},
		"nothing else":                   {[]store.KV{failed}, "carol", "", "u2", "u2", "u2"},
		"her own, which was made again":  {[]store.KV{bobs, failed, of("u3", "alice", record.PhaseReady, "c")}, "alice", "", "u3", "u3", "u3"},
		"another one's, while hers goes": {[]store.KV{bobs, of("u2", "alice", record.PhaseDeleting, "a")}, "alice", "", "u1", "u1", "u1"},
	} {
		caller := identity.Caller{Subject: tc.subject}
		v := Of(tc.there...)
		used, err := v.find(caller, "fish", tc.cluster, false)
		meant, errMeant := v.FindWithResult(caller, "fish", tc.cluster)
		if err != nil || errMeant != nil || used.UID != tc.used || meant.UID != tc.meant || v.FederationNamed(caller, "fish").Rec.UID != tc.ofGroup {
			t.Errorf("%s: %s is used, %s is meant: %v, %v", name, used.UID, meant.UID, err, errMeant)
		}
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
