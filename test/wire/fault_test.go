package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/test/wire"
)

func TestOneDirectionIsCut(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		client, server := n.Host("client"), n.Host("server")
		l := listen(t, server)
		near := dial(t, client, l)
		far := accept(t, l)
		heal := n.AddRule("client", "server", wire.Rule{Cut: true})
		write(t, near, "held")
		write(t, far, "heard")
		reads(t, near, "heard", nil)
		silent(t, far, time.Hour)

		dialled := make(chan net.Conn)
		go func() { dialled <- dial(t, client, l) }()
		synctest.Wait()
		heal()
		reads(t, far, "held", nil)
		write(t, <-dialled, "dialled after all")
		reads(t, accept(t, l), "dialled after all", nil)
	})
}

// A writer that never waits lets no virtual time go by: it would write for ever to a reader that has
// gone, as the news of it takes time.
func TestAWriterWaitsForTheNewsThatItsReaderHasGone(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		n.AddRule("server", "client", wire.Rule{Delay: time.Second})
		near, far := pair(t, n.Host("client"), n.Host("server"))
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		began, written := time.Now(), 0
		var err error
		for chunk := make([]byte, 1<<10); err == nil && written < 1<<20; {
			var sent int
			sent, err = near.Write(chunk)
			written += sent
		}
		if took := time.Since(began); !errors.Is(err, syscall.EPIPE) || took != time.Second {
			t.Errorf("%d bytes, then %v after %v", written, err, took)
		}
	})
}

func TestCutHoldsTheEndBack(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		near, far := pair(t, n.Host("client"), n.Host("server"))
		heal := n.Cut("client", "server")
		n.Host("client").Kill()
		silent(t, far, time.Hour)
		write(t, far, "to nobody")
		heal()
		reads(t, far, "", syscall.ECONNRESET)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write to a dead process: %v", err)
		}
		if _, err := near.Write([]byte("x")); err == nil {
			t.Error("a dead process writes")
		}
	})
}

func TestBreakLosesWhatIsWritten(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		near, far := pair(t, n.Host("client"), n.Host("server"))
		write(t, near, "before")
		n.AddRule("client", "server", wire.Rule{Break: 1})
		write(t, near, "x")
		reads(t, far, "before", syscall.ECONNRESET)
		reads(t, near, "", syscall.ECONNRESET)
	})
}

func TestHangIsSilence(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		near, far := pair(t, n.Host("client"), n.Host("server"))
		remove := n.AddRule("client", "server", wire.Rule{Hang: 1, Times: 1})
		write(t, near, "lost")
		write(t, far, "lost, too")
		remove()
		silent(t, far, time.Hour)
		silent(t, near, time.Hour)
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		silent(t, far, time.Hour)
	})
}

func TestDialsAreRefusedOrDropped(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		client, l := n.Host("client"), listen(t, n.Host("server"))
		remove := n.AddRule("client", "server", wire.Rule{Refuse: 1})
		if _, err := client.DialContext(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("refused: %v", err)
		}
		remove()
		n.AddRule("client", "server", wire.Rule{Drop: 1, Times: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := client.DialContext(ctx, "tcp", l.Addr().String())
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) != time.Hour {
			t.Errorf("dropped: %v after %v", err, time.Since(began))
		}
		dial(t, client, l)
	})
}

func TestKilledProcessNeverWritesAgain(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		server, client := n.Host("server"), n.Host("client")
		l := listen(t, server)
		near := dial(t, client, l)
		far := accept(t, l)
		accepted, read := make(chan error), make(chan error)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		go func() {
			_, err := far.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		server.Kill()
		reads(t, near, "", syscall.ECONNRESET)
		_, dialled := server.DialContext(t.Context(), "tcp", l.Addr().String())
		_, listens := server.Listen(t.Context())
		_, written := far.Write([]byte("x"))
		for what, err := range map[string]error{"accept": <-accepted, "read": <-read, "dial": dialled, "listen": listens, "write": written} {
			if err == nil {
				t.Errorf("a dead process can %s", what)
			}
		}
		again := n.Host("server")
		if again == server || again.Generation() != 2 {
			t.Errorf("after a kill there is %v", again)
		}
		if _, err := again.ListenAt(t.Context(), l.Addr().String()); err != nil {
			t.Error(err)
		}
		dial(t, client, l)
	})
}

// TestChanceDecidesWhatAKilledProcessHasSent: all of it, nothing or a part arrives.
func TestChanceDecidesWhatAKilledProcessHasSent(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		n.AddRule("client", "server", wire.Rule{Delay: time.Second})
		seen := map[int]bool{}
		for range 30 {
			near, far := pair(t, n.Host("client"), n.Host("server"))
			write(t, near, "0123456789")
			n.Host("client").Kill()
			got := make([]byte, 20)
			sent := 0
			for {
				k, err := far.Read(got)
				if err != nil {
					break
				}
				sent += k
			}
			seen[sent] = true
		}
		if !seen[0] || !seen[10] || len(seen) < 3 {
			t.Errorf("of ten bytes there arrived %v", seen)
		}
	})
}

func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		server, client := n.Host("server"), n.Host("client")
		l := listen(t, server)
		near := dial(t, client, l)
		far := accept(t, l)
		write(t, far, "sent before")
		server.Freeze()
		reads(t, near, "sent before", nil)
		write(t, near, "waits")
		second := dial(t, client, l) // the kernel accepts it
		write(t, second, "waits, too")

		began := time.Now()
		thawed := make(chan string, 3)
		go func() {
			if err := far.SetReadDeadline(began.Add(time.Minute)); err != nil {
				t.Error(err)
			}
			if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after its deadline a thawed process reads: %v", err)
			}
			thawed <- "read"
		}()
		go func() {
			write(t, far, "answer")
			thawed <- "write"
		}()
		go func() {
			reads(t, accept(t, l), "waits, too", nil)
			thawed <- "accept"
		}()
		silent(t, near, time.Hour)
		if what := <-thawed; what != "write" || len(thawed) != 0 { // and what it wrote stays with it
			t.Fatalf("a frozen process could %s, and %d things more", what, len(thawed))
		}
		server.Thaw()
		for range 2 {
			<-thawed
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it went on after %v", took)
		}
		reads(t, near, "answer", nil)
		if err := far.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		reads(t, far, "waits", nil)
	})
}

// What a frozen process still writes is lost when it is killed.
func TestFrozenProcessIsKilled(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		near, far := pair(t, n.Host("client"), n.Host("server"))
		n.Host("server").Freeze()
		write(t, far, "never sent")
		silent(t, near, time.Hour)
		n.Host("server").Kill()
		if n, err := near.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read %d %v", n, err)
		}
	})
}

// A writer that learned of it before a reader may have it tried again and again meanwhile, as gRPC does: time would
// stand still.
func TestFrozenProcessLearnsOfAResetWhenItThaws(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		_, far := pair(t, n.Host("client"), n.Host("server"))
		n.Host("server").Freeze()
		n.Host("client").Kill()
		<-time.After(time.Hour)
		write(t, far, "never sent")
		n.Host("server").Thaw()
		if n, err := far.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read %d %v", n, err)
		}
	})
}

func TestFrozenProcessClosesWhenItThaws(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		near, far := pair(t, n.Host("client"), n.Host("server"))
		n.Host("server").Freeze()
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		silent(t, near, time.Hour)
		n.Host("server").Thaw()
		if n, err := near.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d %v", n, err)
		}
	})
}

// fates dials and writes over two pairs of hosts, in an order, and tells what became of
// each connection of the first pair.
func fates(t *testing.T, seed uint64, others int) []string {
	t.Helper()
	var out []string
	in(t, seed, func(t *testing.T, n *wire.Network) {
		n.AddRule("*", "*", wire.Rule{Refuse: 0.2, Break: 0.1, Hang: 0.05, Jitter: time.Second})
		a, b, other := n.Host("a"), listen(t, n.Host("b")), n.Host("other")
		one := func(from *wire.Host) string {
			began := time.Now()
			c, err := from.DialContext(t.Context(), "tcp", b.Addr().String())
			if err != nil {
				return "refused"
			}
			defer func() { _ = c.Close() }()
			far := accept(t, b)
			defer func() { _ = far.Close() }()
			for i := range 10 {
				if err := far.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				write(t, c, "x")
				if _, err := far.Read(make([]byte, 1)); err != nil {
					return fmt.Sprintf("%d: %v after %v", i, err, time.Since(began))
				}
			}
			return fmt.Sprintf("whole after %v", time.Since(began))
		}
		for range 100 {
			for range others {
				one(other)
			}
			out = append(out, one(a))
		}
	})
	return out
}

func TestSeedDecidesTheFaults(t *testing.T) {
	t.Parallel()
	first := fates(t, 7, 0)
	if again := fates(t, 7, 2); !slices.Equal(first, again) {
		t.Errorf("the same seed gave\n%v\n%v", first, again)
	}
	if other := fates(t, 8, 0); slices.Equal(first, other) {
		t.Errorf("another seed gave the same: %v", other)
	}
	count := func(what string) (n int) {
		for _, f := range first {
			if strings.Contains(f, what) {
				n++
			}
		}
		return n
	}
	for _, what := range []string{"refused", "reset", "timeout", "whole"} {
		if n := count(what); n < 5 || n > 60 {
			t.Errorf("of 100 connections %d: %s", n, what)
		}
	}
}
