package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Trouble is what a network does to a link.
type Trouble string

// The troubles.
const (
	// Cut resets connections, and new ones at their first byte.
	Cut Trouble = "cut"
	// HalfOpen loses every byte, and says nothing.
	HalfOpen Trouble = "half-open"
	// Delay holds bytes back for up to a second.
	Delay Trouble = "delay"
	// Slow holds answers back for about as long as a call is waited for.
	Slow Trouble = "slow"
	// Lag holds all bytes back equally, by a sixth of a second each way.
	Lag Trouble = "lag"
	// Flaky breaks each connection after some thousand bytes of answers.
	Flaky Trouble = "flaky"
)

// troubles of one link, in the order that a seed chooses from.
func troubles() []Trouble { return []Trouble{Cut, HalfOpen, Delay, Slow, Flaky} }

// network makes links that can be disturbed.
type network struct {
	t      testing.TB
	server *toxiproxy.ApiServer
}

func newNetwork(t testing.TB) *network {
	return &network{t: t, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// link is one way from a client to a server, both directions of it.
type link struct{ proxy *toxiproxy.Proxy }

// link leads to an address until the test ends.
func (n *network) link(name, upstream string) *link {
	n.t.Helper()
	p := toxiproxy.NewProxy(n.server, name, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(p.Stop)
	return &link{proxy: p}
}

// address is where clients connect to.
func (l *link) address() string { return l.proxy.Listen }

// disturb puts a trouble on a link.
func (l *link) disturb(trouble Trouble, rng *rand.Rand) error {
	toxic, streams := "", []string{"upstream", "downstream"}
	switch trouble {
	case Cut:
		toxic = `"type":"reset_peer","attributes":{"timeout":0}`
	case HalfOpen:
		toxic = `"type":"timeout","attributes":{"timeout":0}`
	case Delay:
		toxic = fmt.Sprintf(`"type":"latency","attributes":{"latency":%d,"jitter":%d}`, 20+rng.IntN(400), rng.IntN(400))
	case Lag:
		toxic = `"type":"latency","attributes":{"latency":160,"jitter":10}`
	case Slow:
		toxic, streams = `"type":"latency","attributes":{"latency":2500,"jitter":1200}`, streams[1:]
	case Flaky:
		toxic, streams = fmt.Sprintf(`"type":"limit_data","attributes":{"bytes":%d}`, 1000+rng.IntN(5000)), streams[1:]
	}
	for _, stream := range streams {
		doc := fmt.Sprintf(`{"name":"%s-%s","stream":%q,"toxicity":1,%s}`, trouble, stream, stream, toxic)
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(doc)); err != nil {
			return fmt.Errorf("disturb %s: %w", l.proxy.Name, err)
		}
	}
	return nil
}

// heal takes every trouble away. Connections that were half-open end.
func (l *link) heal() { l.proxy.Toxics.ResetToxics(context.Background()) }
