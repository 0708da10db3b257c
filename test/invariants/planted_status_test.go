package invariants_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/invariants"
)

func TestPromise9Secrets(t *testing.T) {
	t.Parallel()
	request := record.RequestKey("x")
	value := func(text string) func(*script, *federation) {
		return afterwards(func(x *txn, f *federation) { x.raw(request, `{"v":1,"uid":"f1","request_id":`+text+`}`) })
	}
	public := func(field string) func(*script, *federation) {
		return spoil("specs", func(x *txn, f *federation) {
			key := f.at("b").spec()
			x.raw(key, strings.Replace(string(x.puts[key]), `"token":""`, `"token":"",`+field, 1))
		})
	}
	quoted, err := json.Marshal(canary)
	if err != nil {
		t.Fatal(err)
	}
	coded := func(before string) string {
		return `"` + base64.StdEncoding.EncodeToString([]byte(before+canary+" and more")) + `"`
	}
	run(t, invariants.RuleSecrets, []planted{
		{"a canary in a value", value(string(quoted)), "in JSON", nil},
		{"a canary as it is", afterwards(func(x *txn, f *federation) { x.raw(request, `{"v":1,"uid":"f1"} `+canary) }), "as it is", []invariants.Rule{invariants.RuleRecords}},
		{"a canary in a key", afterwards(func(x *txn, f *federation) { x.put(record.RequestKey(canary), record.Request{V: 1, UID: "f1"}) }), "as it is", nil},
		{"a canary in a name's owner", afterwards(func(x *txn, f *federation) {
			x.raw(record.Root+"audit/"+strings.ReplaceAll(canary, " ", "+"), `{"v":1,"x":"`+fmt.Sprintf("%x", canary)+`"}`)
		}), "in hexadecimal", nil},
		{"a canary in base64", value(coded("")), "in base64", nil},
		{"a canary in base64 behind one byte", value(coded("x")), "in base64", nil},
		{"a canary in base64 behind two bytes", value(coded("xy")), "in base64", nil},
		{"a canary below a prefix of which nothing is known", afterwards(func(x *txn, f *federation) {
			x.raw(record.Root+"unheard/of", `{"v":1,"event":`+string(quoted)+`}`)
		}), "in JSON", nil},
		{"a secret of the environment", public(`"environment":{"secrets":{"MY_KEY":"value"}}`), "service.environment.secrets.MY_KEY is readable", nil},
		{"a credential of a storage provider", public(`"storage_providers":{"minio":{"x":{"endpoint":"e","access_key":"AKIA","secret_key":""}}}`),
			"service.storage_providers.minio.x.access_key is readable", nil},
		{"a password of a cluster", public(`"clusters":{"a":{"endpoint":"e","auth_password":"p"}}`), "service.clusters.a.auth_password is readable", nil},
		{"a header of a member", public(`"federation":{"members":[{"headers":{"Authorization":"Bearer x"}}]}`),
			"service.federation.members.0.headers.Authorization is readable", []invariants.Rule{invariants.RuleOurs}},
		{"a refresh token in the history", spoil("specs", func(x *txn, f *federation) {
			x.put(f.history(), record.History{V: 1, Service: json.RawMessage(`{"name":"one0","environment":{"secrets":{"refresh_token":"rt"}}}`)})
		}), "service.environment.secrets.refresh_token is readable", nil},
		{"a numeric password", public(`"storage_providers":{"webdav":{"x":{"password":1234}}}`), "password is readable", nil},
		{"a sealed field that is not sealed", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.at("b").spec(), func(s *record.Spec) { s.Sealed = base64.StdEncoding.EncodeToString([]byte(`{"environment":{}}`)) })
		}), "sealed is no age envelope", nil},
		{"a spec without its envelope", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.at("b").spec(), func(s *record.Spec) { s.Sealed = "" })
		}), "sealed is no age envelope", nil},
		{"submitted secrets that are not sealed", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.secrets(), func(s *record.Secrets) { s.Sealed = base64.StdEncoding.EncodeToString([]byte("{}")) })
		}), "secrets/f1/1: sealed is no age envelope", nil},
		{"tokens that are not sealed", afterwards(func(x *txn, f *federation) {
			x.put(record.HoldKey("a", "f1"), record.Hold{V: 1, Order: record.HoldKeep, Serial: 1, Owner: owner, Refresh: "rt"})
		}), "refresh is no age envelope", nil},
		{"an access token that is not sealed", afterwards(func(x *txn, f *federation) {
			x.put(record.TokensKey("b", "f1"), record.Tokens{V: 1, Generation: 1, Access: "at"})
		}), "access is no age envelope", nil},
		{"an access token that outlives its federation", spoil("forget", func(x *txn, _ *federation) {
			x.put(record.TokensKey("b", "f1"), record.Tokens{V: 1, Generation: 1, Access: envelope(t)})
		}), "the owner's access token is kept although federation f1 is gone", nil},
		{"an access token that outlives what ends with it", spoilRollback("rolled back", func(x *txn, _ *federation) {
			x.put(record.TokensKey("b", "f1"), record.Tokens{V: 1, Generation: 1, Access: envelope(t)})
		}), "the owner's access token is kept although federation f1 is rolled_back", nil},
		{"a subject of another user", func(s *script, f *federation) {
			for _, issuer := range []string{"https://a.example.org", "https://b.example.org"} {
				s.step("bind", func(x *txn) { x.put(record.OwnerKey("somebody"), record.Owner{V: 1, Issuer: issuer}) })
			}
		}, "is now that of one of https://b.example.org", nil},
		{"the token of a service, before its mark is known", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.at("b").spec(), func(s *record.Spec) {
				s.Service = json.RawMessage(strings.Replace(string(s.Service), `"token":""`, `"label":"`+f.at("b").token()+`"`, 1))
			})
		}), "the token of a service is readable", nil},
		{"the token of a service, in a report", afterwards(func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) { o.Message = "401 for " + f.at("b").token() })
		}), "the token of a service is readable", nil},
	})
}

func TestPromise10Generations(t *testing.T) {
	t.Parallel()
	report := func(step string, fn func(*record.Observed)) func(*script, *federation) {
		return spoil(step, func(x *txn, f *federation) { edit(x, f.at("b").observed(), fn) })
	}
	phase := func(step string, p record.Phase) func(*script, *federation) {
		return spoil(step, func(x *txn, f *federation) { f.turn(x, p) })
	}
	atomic, votes := []invariants.Rule{invariants.RuleAtomic}, []invariants.Rule{invariants.RuleVotes}
	run(t, invariants.RuleStatus, []planted{
		{"a report about a generation to come", report("applied b", func(o *record.Observed) { o.ObservedGeneration = 2 }), "the newest desired is 1", nil},
		{"a report about another life", report("applied b", func(o *record.Observed) { o.UID = "f0-b" }), "which was never desired here", votes},
		{"a report about the life of another place", report("applied b", func(o *record.Observed) { o.UID = "f1-c" }), "which was never desired here", votes},
		{"a report about an older record", report("applied b", func(o *record.Observed) { o.DesiredRevision-- }), "it answers revision", nil},
		{"ready for a prepare", report("vote b", func(o *record.Observed) { o.Phase = record.PhaseReady }), `phase "ready" answers a desired record with intent prepare`, nil},
		{"deleted without a tombstone", report("applied b", func(o *record.Observed) { o.Phase = record.PhaseDeleted }), "with intent apply", nil},
		{"a computed phase", report("applied b", func(o *record.Observed) { o.Phase = record.PhaseUnreachable }), `phase "unreachable"`, nil},
		{"ready for an older generation", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 2) })
			s.on("f1 applied b", func(x *txn) { edit(x, f.at("b").observed(), func(o *record.Observed) { o.ObservedGeneration = 1 }) })
			f.applied(record.PhaseReady, "b")
		}, "it is ready at generation 1, desired is 2", nil},
		{"reports go back", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 2) })
			f.applied(record.PhaseReady, "b")
			s.on("f1 applied b", func(x *txn) { edit(x, f.at("b").observed(), func(o *record.Observed) { o.ObservedGeneration = 1 }) })
			f.applied(record.PhaseFailed, "b")
		}, "and spoke of 2 before", nil},
		{"ready before all are", func(_ *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.applied(record.PhaseReady, "a", "c")
			f.ready()
		}, "what was reported as ready is of revision 0", nil},
		{"ready although one failed", spoil("applied b", func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) { o.Phase = record.PhaseFailed })
		}), "what was reported as ready is of revision 0", nil},
		{"ready for the record as it was", func(s *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.applied(record.PhaseReady, "a", "b", "c")
			s.step("paused", func(x *txn) {
				f.turn(x, record.PhaseApplying)
				desired(x, f.at("b"), func(d *record.Desired) { d.Paused = true })
			})
			f.ready()
		}, "what was reported as ready is of revision", nil},
		{"a report about a place where nothing is desired any more", func(s *script, f *federation) {
			f.refusedStory()
			s.step("late vote", func(x *txn) {
				x.put(f.at("c").observed(), record.Observed{V: 1, Phase: record.PhaseRefused, UID: "f1-c", ObservedGeneration: 1, DesiredRevision: 9})
			})
		}, "what is desired has uid (none) and revision 0", nil},
		{"ready without being applied", phase("commit", record.PhaseReady), "is ready without having been applied", nil},
		{"a federation that begins as ready", phase("create", record.PhaseReady), `phase "ready" follows ""`, atomic},
		{"a deletion of a creation in flight", func(_ *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.bury(record.PhaseDeleting, record.CauseDeleted)
		}, `phase "deleting" follows "applying"`, nil},
		{"a rollback of what was ready", func(_ *script, f *federation) {
			f.createdStory()
			f.bury(record.PhaseRollingBack, record.CauseRollback)
		}, `phase "rolling_back" follows "ready"`, nil},
		{"a phase that is never stored", phase("ready", record.PhaseDegraded), `phase "degraded" follows "applying"`, atomic},
		{"a ready federation is forgotten", func(s *script, f *federation) {
			f.createdStory()
			s.step("extra", func(x *txn) { x.remove(f.key()) })
		}, `phase "" follows "ready"`, atomic},
		{"a federation begins with generation 2", spoil("create", func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) { fed.Generation = 2 })
		}), "it begins with generation 2", atomic},
		{"the generation of a federation goes back", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 3) })
			s.step("back", func(x *txn) { f.change(x, 2) })
		}, "generation 2 follows 3", nil},
		{"the generation of a replica goes back", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 3) })
			s.step("back", func(x *txn) { f.change(x, 2) })
		}, "generation 2 of uid f1-b follows 3", nil},
		{"a member is added within a generation", afterwards(func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) {
				fed.Members = append(fed.Members, record.Member{Type: "endpoint", URL: "https://x.example.org"})
			})
		}), "the graph was changed within generation 1", nil},
		{"whom a replica sees changes within a generation", afterwards(func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "changed" })
			desired(x, f.at("b"), func(d *record.Desired) { d.Sees = nil })
		}), "what is desired was changed within generation 1", []invariants.Rule{invariants.RuleGraph}},
		{"a service changes as it is taken out of parts", func(s *script, f *federation) {
			f.inParts("b")
			f.createdStory()
			s.step("whole", func(x *txn) { f.makeWhole(x, "b", `"0.5Gi"`, `"5Gi"`) })
		}, "what is desired was changed within generation 1", nil},
	})
}

func TestVotes(t *testing.T) {
	t.Parallel()
	vote := func(step string, fn func(*record.Vote)) func(*script, *federation) {
		return spoil(step, func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) { fn(o.Vote) })
		})
	}
	run(t, invariants.RuleVotes, []planted{
		{"a vote on a revision at which nobody was asked", vote("vote b", func(v *record.Vote) { v.Revision-- }), "at which uid f1-b was not asked", nil},
		{"an answer that is none", vote("vote b", func(v *record.Vote) { v.Answer = "perhaps" }), "neither yes nor no", nil},
		{"a vote after the prepare", vote("applied b", func(v *record.Vote) { v.DelayS = 7 }), "already", nil},
		{"a no is applied", vote("vote b", func(v *record.Vote) { v.Answer = record.VoteNo }), "it voted no", nil},
		{"a missing vote is applied", func(_ *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "c")
			f.commit("a", "b", "c")
		}, "uid f1-b is applied and has not voted", nil},
		{"a stale vote is applied", func(s *script, f *federation) {
			f.bestEffortStory() // b refused the first prepare
			s.step("asked again", func(x *txn) {
				f.turn(x, record.PhaseReady)
				desired(x, f.at("b"), func(d *record.Desired) { d.Paused = true })
			})
			f.vote(record.VoteYes, "b")
			s.step("asked again", func(x *txn) {
				f.turn(x, record.PhaseReady)
				desired(x, f.at("b"), func(d *record.Desired) { d.Paused = false })
			})
			f.join("b")
		}, "it voted yes on revision", nil},
		{"a vote of the aborted attempt counts for the next", func(s *script, f *federation) {
			s.on("f1 abort", func(x *txn) { x.leave(f.at("a").observed()) })
			f.refusedStory().forget()
			again := s.federation("f2", "one")
			again.create()
			again.vote(record.VoteYes, "b", "c")
			again.commit("a", "b", "c")
		}, "uid f2-a is applied and has not voted", nil},
		{"an apply out of nothing", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) {
				desired(x, f.at("b"), func(d *record.Desired) { d.Intent = record.IntentApply })
			})
			f.create()
		}, "uid f1-b is applied without a vote", []invariants.Rule{invariants.RuleAtomic}},
	})
}

// envelope is a text sealed to somebody.
func envelope(t *testing.T) string {
	t.Helper()
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	out, err := seal.Seal(seal.Header{Purpose: "access_token"}, []byte("at"), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
