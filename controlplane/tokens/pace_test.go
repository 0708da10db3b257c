package tokens

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// take applies steps to the situation, as the store would.
func (s *tokenSituation) take(steps []tokenStep) {
	for _, step := range steps {
		for key, rec := range step.put {
			s.set(key, rec)
		}
	}
}

// set writes a record, or deletes it with nil.
func (s *tokenSituation) set(key string, rec any) {
	ref := record.ParseKey(key)
	switch ref.Kind {
	case record.KindHold:
		put(s.tokens.Holds, ref.Cluster, rec)
	case record.KindHolding:
		put(s.tokens.Holdings, ref.Cluster, rec)
	case record.KindWant:
		put(s.tokens.Wants, ref.Cluster, rec)
	case record.KindGrant:
		put(s.tokens.Grants, ref.Cluster, rec)
	case record.KindTokenAsk:
		put(s.tokens.Asks, view.Exchange{Holder: ref.Cluster, Member: ref.Rest}, rec)
	case record.KindGranted:
		put(s.tokens.Granted, view.Exchange{Holder: ref.Cluster, Member: ref.Rest}, rec)
	default:
		panic(key)
	}
}

func put[K comparable, T any](m map[K]view.Versioned[T], key K, rec any) {
	if rec == nil {
		delete(m, key)
		return
	}
	m[key] = view.Versioned[T]{Rec: rec.(*T), Rev: m[key].Rev + 1}
}

// settle takes steps until there are none, and says how many there were.
func (s *tokenSituation) settle(t interface{ Fatalf(string, ...any) }) (n int) {
	for range 10 {
		steps, again := decideTokens(*s)
		if len(steps) == 0 {
			if !again.IsZero() && !again.After(s.now) {
				t.Fatalf("nothing is to be done, and it is looked at again at once")
			}
			return n
		}
		n += len(steps)
		s.take(steps)
	}
	t.Fatalf("there is no end of steps about %v, %v", s.tokens.Grants, s.tokens.Granted)
	return n
}

// A token without an end is none. It was passed on again and again, for as long as it stood.
func TestAGrantWithoutAnEndIsNotPassedOnForEver(t *testing.T) {
	s := keepers()
	s.want("a", "n1") // the holder is a member, too
	s.set(record.GrantedKey("a", "f", "a"), &record.Grant{V: 1, Nonce: "n1", Access: "sealed"})
	s.recipients["a"] = "key-of-a"
	s.settle(t)
	if grant := s.tokens.Grants["a"].Rec; grant != nil {
		t.Errorf("passed on: %+v", grant)
	}
}

// Whatever the holder and a member write, the steps about it come to an end.
func TestStepsAboutTokensEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := keepers()
		nonces := rapid.SampledFrom([]string{"n1", "n2"})
		messages := rapid.SampledFrom([]string{"", "one", "another"})
		for range 20 {
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "pass")) * time.Second)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				s.set(record.WantKey("b", "f"), &record.Want{V: 1, Nonce: nonces.Draw(t, "want")})
			case 1:
				s.set(record.WantKey("b", "f"), nil)
			case 2:
				g := &record.Grant{V: 1, Nonce: nonces.Draw(t, "nonce"), Message: messages.Draw(t, "message"), Access: messages.Draw(t, "access")}
				if ends := rapid.IntRange(-100, 100).Draw(t, "ends"); ends != 0 {
					g.Expires = new(record.At(s.now.Add(time.Duration(ends) * time.Second)))
				}
				s.set(record.GrantedKey("a", "f", "b"), g)
			case 3:
				s.set(record.GrantedKey("a", "f", "b"), nil)
			case 4:
				s.tokens.Holdings["a"].Rec.Message = messages.Draw(t, "says")
				s.tokens.Holdings["a"].Rec.State = rapid.SampledFrom([]record.HoldState{record.HoldStored, record.HoldFailing, record.HoldLost}).Draw(t, "state")
			default:
				s.recipients["b"] = messages.Draw(t, "recipient")
			}
			s.settle(t)
		}
	})
}

// A member or a holder that writes all the time makes no more work than one record of each kind in five seconds.
func TestHostileClustersMakeFewTokenSteps(t *testing.T) {
	const tick, ticks = 50 * time.Millisecond, 600
	nonce := func(i int) string { return "n" + strconv.Itoa(i) }
	// answer answers the open ask.
	answer := func(s *tokenSituation, grant record.Grant) {
		if ask := s.tokens.Asks[view.Exchange{Holder: "a", Member: "b"}].Rec; ask != nil {
			grant.Nonce = ask.Nonce
			s.set(record.GrantedKey("a", "f", "b"), &grant)
		}
	}
	ends := func(s *tokenSituation, in time.Duration) *record.Time { return new(record.At(s.now.Add(in))) }
	for name, act := range map[string]func(s *tokenSituation, i int){
		"a member that takes back what it wants": func(s *tokenSituation, i int) {
			if i%2 == 0 {
				s.want("b", nonce(i))
			} else {
				s.set(record.WantKey("b", "f"), nil)
			}
		},
		"one that takes back what it was given": func(s *tokenSituation, i int) {
			switch i % 3 {
			case 0:
				s.want("b", nonce(i))
			case 1:
				answer(s, record.Grant{V: 1, Access: "sealed", Expires: ends(s, time.Hour)})
			default:
				s.set(record.WantKey("b", "f"), nil)
			}
		},
		"a member with another key each time": func(s *tokenSituation, i int) {
			s.want("b", nonce(0))
			s.recipients["b"] = nonce(i)
		},
		"a holder whose tokens have expired": func(s *tokenSituation, i int) {
			if s.tokens.Wants["b"].Rec == nil {
				s.want("b", nonce(i))
			}
			answer(s, record.Grant{V: 1, Access: "sealed", Expires: ends(s, -time.Hour)})
		},
		"a holder that gives what was not asked for": func(s *tokenSituation, i int) {
			if s.tokens.Wants["b"].Rec == nil {
				s.want("b", "n")
			}
			s.set(record.GrantedKey("a", "f", "b"), &record.Grant{V: 1, Nonce: "n", Access: nonce(i), Expires: ends(s, -time.Hour)})
		},
		"a holder with another excuse each time": func(s *tokenSituation, i int) {
			s.want("b", nonce(0))
			s.tokens.Holdings["a"].Rec.State, s.tokens.Holdings["a"].Rec.Message = record.HoldFailing, nonce(i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := keepers()
			n := 0
			for i := range ticks {
				s.now = s.now.Add(tick)
				act(&s, i)
				n += s.settle(t)
			}
			if most := 3 * int(1+ticks*tick/askPause); n > most {
				t.Errorf("%d steps, at most %d are expected", n, most)
			}
		})
	}
}
