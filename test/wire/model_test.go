package wire_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/test/wire"
)

// TestAllArrivesInOrder: whatever is delayed, cut and frozen on the way, as long as nothing
// breaks, hangs or dies.
func TestAllArrivesInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		in(t, seed, func(t *testing.T, n *wire.Network) {
			rng := rand.New(rand.NewPCG(seed, 0))
			hosts := []*wire.Host{n.Host("client"), n.Host("server")}
			near, far := pair(t, hosts[0], hosts[1])
			var work sync.WaitGroup
			for _, way := range [][2]io.ReadWriteCloser{{near, far}, {far, near}} {
				text := make([]byte, 1+rng.IntN(1<<19))
				chunk := 1 + rng.IntN(1<<17)
				for i := range text {
					text[i] = byte(i * 7 >> 3)
				}
				work.Go(func() {
					for rest := text; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
						if _, err := way[0].Write(rest[:min(chunk, len(rest))]); err != nil {
							t.Error(err)
							return
						}
					}
				})
				work.Go(func() {
					got := make([]byte, len(text))
					if k, err := io.ReadFull(way[1], got); err != nil || !bytes.Equal(got, text) {
						t.Errorf("seed %d: of %d bytes there arrived %d, %v, and not the same", seed, len(text), k, err)
					}
				})
			}
			disturb(n, hosts, rng)
			work.Wait()
		})
	}
}

// disturb does harm for a while, and undoes it.
func disturb(n *wire.Network, hosts []*wire.Host, rng *rand.Rand) {
	var undo []func()
	for range rng.IntN(20) {
		from, to := rng.IntN(2), rng.IntN(2)
		switch rng.IntN(5) {
		case 0:
			undo = append(undo, n.AddRule(hosts[from].Name(), hosts[to].Name(), wire.Rule{Cut: true}))
		case 1:
			hosts[from].Freeze()
			undo = append(undo, hosts[from].Thaw)
		case 2:
			rule := wire.Rule{Delay: time.Duration(rng.IntN(2)) * time.Millisecond, Jitter: time.Duration(rng.IntN(50)) * time.Millisecond}
			undo = append(undo, n.AddRule(hosts[from].Name(), "*", rule))
		default:
			rng.Shuffle(len(undo), func(i, j int) { undo[i], undo[j] = undo[j], undo[i] })
			if len(undo) > 0 {
				undo[0]()
				undo = undo[1:]
			}
		}
		synctest.Wait()
		<-time.After(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
	for _, u := range undo {
		u()
	}
}

// TestNothingIsInvented: under all faults, what is read is a beginning of what was written, and
// nobody waits for ever once a process has died.
func TestNothingIsInvented(t *testing.T) {
	t.Parallel()
	var read int
	for seed := range uint64(100) {
		in(t, seed, func(t *testing.T, n *wire.Network) {
			n.AddRule("*", "*", wire.Rule{Jitter: 20 * time.Millisecond, Break: 0.005, Hang: 0.005})
			rng := rand.New(rand.NewPCG(seed, 0))
			hosts := []*wire.Host{n.Host("client"), n.Host("server")}
			near, far := pair(t, hosts[0], hosts[1])
			var work sync.WaitGroup
			work.Go(func() {
				for i := 0; ; i++ {
					if _, err := fmt.Fprintf(near, "%08d", i); err != nil {
						return
					}
					<-time.After(time.Millisecond)
				}
			})
			work.Go(func() {
				got, _ := io.ReadAll(far) // until the reset
				read += len(got)
				for i := 0; len(got) >= 8; i, got = i+1, got[8:] {
					if want := fmt.Sprintf("%08d", i); string(got[:8]) != want {
						t.Errorf("seed %d: read %q, want %q", seed, got[:8], want)
						return
					}
				}
			})
			disturb(n, hosts, rng)
			<-time.After(time.Duration(rng.IntN(100)) * time.Millisecond)
			hosts[0].Kill()
			synctest.Wait()
			hosts[1].Kill()
			work.Wait()
		})
	}
	if read < 5_000 {
		t.Errorf("no more than %d bytes arrived in all", read)
	}
}
