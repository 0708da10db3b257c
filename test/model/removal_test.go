package model_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/client"
)

// notFound: a replica that was removed is not there any more, at once and for
// every instance.
func (m *machine) notFound(rt *rapid.T, p place) {
	if g, _ := m.holder(p); g != nil {
		return
	}
	for _, api := range m.up() {
		_, err := api.Service(m.l.ctx, p.service, p.cluster)
		expect(rt, "get "+p.String(), err, codes{"not_found"})
	}
}

// remove deletes a federation, also one that is being created or changed.
func (m *machine) remove(rt *rapid.T) {
	g := m.groups[rapid.SampledFrom(groupNames).Draw(rt, "group")]
	if g.state == absent {
		if g.coordinator == "" {
			rt.Skip("it never was")
		}
		m.notFound(rt, g.at())
		return
	}
	allowed := codes{""}
	if g.state == creating && g.any() {
		allowed = codes{"", "not_found"}
	}
	_, err := m.api(rt).DeleteService(m.l.ctx, g.name, client.DeleteOptions{ClusterID: g.coordinator})
	expect(rt, "delete "+g.name, err, allowed)
	places := g.places(g.words)
	m.ended(g)
	for _, p := range places {
		m.notFoundOrResult(rt, p)
	}
}

// notFoundOrResult: nothing is at the place but, perhaps, what became of a creation.
func (m *machine) notFoundOrResult(rt *rapid.T, p place) {
	if g, _ := m.holder(p); g != nil {
		return
	}
	v, err := m.api(rt).Replicas(m.l.ctx, p.service, p.cluster)
	if err == nil && slices.Contains([]string{"aborted", "rolled_back", "rolling_back"}, v.Phase) {
		return
	}
	expect(rt, "get "+p.String(), err, codes{"not_found"})
}
