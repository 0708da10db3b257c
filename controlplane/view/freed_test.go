package view

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

// Only a cluster that may have more room than before can take a job that waits.
func TestOnlyMoreRoomCountsAsFreed(t *testing.T) {
	node := func(name string, cpu int64) record.CapacityNode {
		return record.CapacityNode{Name: name, Status: record.NodeReady, CPU: record.NodeAmount{Allocatable: 8000, Free: cpu}}
	}
	capacity := func(nodes ...record.CapacityNode) *record.Capacity {
		return &record.Capacity{Session: 1, Nodes: nodes}
	}
	failing, other := capacity(node("a", 100)), capacity(node("a", 100))
	failing.FailingSince, other.Session = &record.Time{}, 2
	away := node("a", 100)
	away.Status = "NotReady"
	for name, tc := range map[string]struct {
		was, now *record.Capacity
		less     bool
	}{
		"the first":       {nil, capacity(node("a", 100)), false},
		"the same":        {capacity(node("a", 100)), capacity(node("a", 100)), true},
		"less":            {capacity(node("a", 100), node("b", 100)), capacity(node("a", 50), node("b", 100)), true},
		"a node is gone":  {capacity(node("a", 100), node("b", 100)), capacity(node("b", 100)), true},
		"gone":            {capacity(node("a", 100)), nil, true},
		"more on one":     {capacity(node("a", 100), node("b", 100)), capacity(node("a", 50), node("b", 200)), false},
		"another node":    {capacity(node("a", 100)), capacity(node("b", 50)), false},
		"a node is ready": {capacity(away), capacity(node("a", 100)), false},
		"measured again":  {failing, capacity(node("a", 100)), false},
		"another session": {capacity(node("a", 100)), other, false},
		"nodes unlisted":  {capacity(node("a", 100)), &record.Capacity{Session: 1, Unlisted: &record.CapacityRest{}}, false},
		"cannot be had":   {capacity(node("a", 100)), failing, true},
	} {
		if got := hasLess(tc.was, tc.now); got != tc.less {
			t.Errorf("%s: less %v", name, got)
		}
	}
	promises := func(of ...record.Promise) *record.Reserved { return &record.Reserved{Jobs: of} }
	small, large := record.Room{Millicores: 100}, record.Room{Millicores: 900}
	for name, tc := range map[string]struct {
		was, now *record.Reserved
		more     bool
	}{
		"the first":         {nil, promises(record.Promise{Room: small, Count: 1}), true},
		"one more":          {promises(record.Promise{Room: small, Count: 1}), promises(record.Promise{Room: large, Count: 1}, record.Promise{Room: small, Count: 1}), true},
		"one less":          {promises(record.Promise{Room: small, Count: 2}), promises(record.Promise{Room: small, Count: 1}), false},
		"large for small":   {promises(record.Promise{Room: large, Count: 1}), promises(record.Promise{Room: small, Count: 5}), false},
		"nothing any more":  {promises(record.Promise{Room: small, Count: 2}), nil, false},
		"nothing as before": {nil, nil, true},
	} {
		if got := promisesMore(tc.was, tc.now); got != tc.more {
			t.Errorf("%s: more %v", name, got)
		}
	}
}
