package linear_test

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/oscarfed/oscarfed/test/linear"
)

// script writes down a history: operations one after another, or at once.
type script struct {
	ops  []porcupine.Operation
	time int64
}

func (s *script) add(in linear.Input, out linear.Output) *script {
	s.ops = append(s.ops, porcupine.Operation{Input: in, Output: out, Call: s.time, Return: s.time + 1})
	s.time += 2
	return s
}

// with lets the last operation begin n operations earlier.
func (s *script) with(n int64) *script {
	s.ops[len(s.ops)-1].Call -= 2 * n
	return s
}

// unknown makes the last operation one without an answer.
func (s *script) unknown() *script {
	last := &s.ops[len(s.ops)-1]
	last.Output, last.Return = linear.Output{Answer: linear.Unknown}, math.MaxInt64
	return s
}

func (s *script) do(kind linear.Kind, id int, places linear.Places, answer linear.Answer) *script {
	return s.add(linear.Input{Kind: kind, ID: id, Places: places}, linear.Output{Answer: answer})
}

func (s *script) keyed(id int, places linear.Places, answer linear.Answer) *script {
	return s.add(linear.Input{Kind: linear.Create, ID: id, Places: places, Keyed: true}, linear.Output{Answer: answer})
}

func (s *script) bound(kind linear.Kind, id int, places linear.Places, revision int64, answer linear.Answer) *script {
	return s.add(linear.Input{Kind: kind, ID: id, Places: places, IfMatch: revision}, linear.Output{Answer: answer})
}

func (s *script) get(phase string, generation, revision int64, members linear.Places) *script {
	return s.add(linear.Input{Kind: linear.Get, Places: a},
		linear.Output{Answer: linear.OK, View: linear.View{UID: "u", Phase: phase, Generation: generation, Revision: revision, Members: members}})
}

func (s *script) absent() *script {
	return s.add(linear.Input{Kind: linear.Get, Places: a}, linear.Output{Answer: linear.NotFound})
}

func (s *script) definition(id int, members linear.Places) *script {
	return s.add(linear.Input{Kind: linear.GetService},
		linear.Output{Answer: linear.OK, View: linear.View{Definition: id, Members: members}})
}

const (
	a linear.Places = 1 << iota
	b
	c
)

// TestTheModelKnowsAFederation holds small histories against the model: what may
// be, and beside each what may not.
func TestTheModelKnowsAFederation(t *testing.T) {
	up := func() *script {
		return new(script).do(linear.Create, 1, b, linear.OK).get("ready", 1, 10, a|b)
	}
	for name, h := range map[string]struct {
		script *script
		legal  bool
	}{
		"a create, and what is read of it":             {up().definition(1, a|b), true},
		"a definition of nobody":                       {up().definition(2, a|b), false},
		"a create of a name that is taken":             {up().do(linear.Create, 2, 0, linear.Exists), true},
		"a create over another":                        {up().do(linear.Create, 2, 0, linear.OK), false},
		"a name that is taken though nothing is there": {new(script).do(linear.Create, 1, 0, linear.Exists), false},
		"taken by a tombstone":                         {up().do(linear.Delete, 2, 0, linear.OK).do(linear.Create, 3, 0, linear.Exists), true},
		"404 at once after a delete":                   {up().do(linear.Delete, 2, 0, linear.OK).absent(), true},
		"seen after a delete":                          {up().do(linear.Delete, 2, 0, linear.OK).get("ready", 1, 10, a|b), false},
		"seen while it is deleted":                     {up().do(linear.Delete, 2, 0, linear.OK).get("ready", 1, 10, a|b).with(1), true},
		"404 though it is there":                       {up().absent(), false},
		"one delete of two lives":                      {up().do(linear.Delete, 2, 0, linear.OK).do(linear.Create, 3, 0, linear.OK).absent(), false},

		"a stale view":                       {up().do(linear.Remove, 2, b, linear.OK).get("ready", 1, 10, a|b), false},
		"the newest view":                    {up().do(linear.Remove, 2, b, linear.OK).get("ready", 2, 12, a), true},
		"a revision that went back":          {up().do(linear.Remove, 2, b, linear.OK).get("ready", 2, 9, a), false},
		"a revision that moved by itself":    {up().get("ready", 1, 11, a|b), false},
		"moved by an acknowledged tombstone": {up().do(linear.Remove, 2, b, linear.OK).get("ready", 2, 12, a).get("ready", 2, 13, a), true},
		"moved twice by one tombstone":       {up().do(linear.Remove, 2, b, linear.OK).get("ready", 2, 12, a).get("ready", 2, 13, a).get("ready", 2, 14, a), false},
		"a change that was lost":             {up().do(linear.Change, 2, b, linear.OK).get("ready", 1, 10, a|b), false},
		"a change with its definition":       {up().do(linear.Change, 2, b, linear.OK).get("ready", 2, 12, a|b).definition(2, a|b), true},
		"additions that merge":               {up().do(linear.Add, 2, c, linear.OK).do(linear.Remove, 3, b, linear.OK).with(1).get("ready", 3, 14, a|c), true},
		"an addition that is lost":           {up().do(linear.Add, 2, c, linear.OK).do(linear.Remove, 3, b, linear.OK).with(1).get("ready", 2, 14, a), false},
		"an addition of who is there":        {up().do(linear.Add, 2, b, linear.OK).get("ready", 1, 10, a|b), true},

		"if-match at its revision":              {up().bound(linear.Change, 2, b, 10, linear.OK), true},
		"if-match at another":                   {up().bound(linear.Change, 2, b, 9, linear.OK), false},
		"refused at another":                    {up().bound(linear.Change, 2, b, 9, linear.Conflict), true},
		"refused at its revision":               {up().bound(linear.Change, 2, b, 10, linear.Conflict), false},
		"refused at its revision by a deletion": {up().do(linear.Delete, 2, 0, linear.OK).bound(linear.Change, 3, b, 10, linear.Conflict).with(1), true},
		"a conflict about nothing":              {up().do(linear.Delete, 2, 0, linear.OK).do(linear.Change, 3, b, linear.Conflict), false},
		"two at the same revision":              {up().bound(linear.Change, 2, b, 10, linear.OK).bound(linear.Change, 3, b, 10, linear.OK).with(1), false},
		"one of two at a revision":              {up().bound(linear.Change, 2, b, 10, linear.OK).bound(linear.Change, 3, b, 10, linear.Conflict).with(1), true},

		"a failed change has no effect":  {up().do(linear.Add, 2, c, linear.Aborted).get("ready", 1, 12, a|b), true},
		"a failed change with an effect": {up().do(linear.Add, 2, c, linear.Aborted).get("ready", 2, 12, a|b|c), false},
		"the result of one is deleted":   {new(script).do(linear.Create, 1, b, linear.Aborted).do(linear.Delete, 2, 0, linear.OK).absent(), true},
		"a delete of nothing":            {new(script).do(linear.Delete, 2, 0, linear.OK), false},
		"a failed create has no effect":  {new(script).do(linear.Create, 1, b, linear.Aborted).absent(), true},
		"a failed create with an effect": {new(script).do(linear.Create, 1, b, linear.Aborted).get("ready", 1, 10, a|b), false},
		"a failure that was a success":   {up().do(linear.Delete, 2, 0, linear.Nothing).absent(), false},
		"an unknown outcome, done":       {up().do(linear.Delete, 2, 0, linear.OK).unknown().absent(), true},
		"an unknown outcome, not done":   {up().do(linear.Delete, 2, 0, linear.OK).unknown().get("ready", 1, 10, a|b), true},
		"an unknown outcome, done later": {up().do(linear.Delete, 2, 0, linear.OK).unknown().get("ready", 1, 10, a|b).absent(), true},
		"an unknown outcome, done twice": {up().do(linear.Delete, 2, 0, linear.OK).unknown().absent().
			do(linear.Create, 3, 0, linear.OK).absent(), false},

		"a key, sent twice":                        {new(script).keyed(1, 0, linear.OK).keyed(1, 0, linear.OK).get("ready", 1, 10, a), true},
		"a key, sent again after a delete":         {new(script).keyed(1, 0, linear.OK).do(linear.Delete, 2, 0, linear.OK).keyed(1, 0, linear.OK).absent(), true},
		"a key that is forgotten":                  {new(script).keyed(1, 0, linear.OK).keyed(1, 0, linear.Exists), false},
		"a key that does it again":                 {new(script).keyed(1, 0, linear.OK).do(linear.Delete, 2, 0, linear.OK).keyed(1, 0, linear.OK).get("ready", 1, 20, a), false},
		"a key with another outcome":               {new(script).keyed(1, 0, linear.Aborted).keyed(1, 0, linear.OK), false},
		"a key that finds its own work in the way": {new(script).keyed(1, 0, linear.OK).unknown().get("ready", 1, 10, a).keyed(1, 0, linear.Exists), false},
		"an answer that may never be given":        {new(script).do(linear.Delete, 1, 0, linear.Strange), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := porcupine.CheckOperations(linear.Model(), h.script.ops); got != h.legal {
				for _, op := range h.script.ops {
					t.Log(linear.Describe(op.Input.(linear.Input), op.Output.(linear.Output)))
				}
				t.Errorf("the model says %v", got)
			}
		})
	}
}
