package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// pollEvery is how often the state of a creation or a change is read.
const pollEvery = 250 * time.Millisecond

// source is where that state is read: by the service's name until
// its federation is known, then by the federation's uid, which stays valid when
// the creation fails.
type source struct {
	api              *client.Client
	service, cluster string
	uid              string
}

// errFormer is why the state of a creation that has ended is not shown: it may be that of the one before.
var errFormer = errors.New("it is over")

func (s *source) read(ctx context.Context) (*v1.Federation, error) {
	if s.uid == "" {
		f, err := federationOf(ctx, s.api, s.service, s.cluster)
		switch {
		case err != nil:
			return nil, err
		case over(f.Phase):
			return nil, errFormer
		}
		s.uid = f.UID
		return f, nil
	}
	return s.api.Federation(ctx, s.uid)
}

// progress shows the replicas of one federation: on a terminal as a block that is
// written over, elsewhere as one line for each change.
type progress struct {
	w    io.Writer
	live bool
	// style has the width of the terminal: a longer line would wrap and spoil the block.
	style output.Style
	// drawn is how many lines of the block stand on the terminal.
	drawn int
	shown map[string]string
}

func newProgress(w io.Writer, live bool, style output.Style) *progress {
	return &progress{w: w, live: live, style: style, shown: map[string]string{}}
}

// follow shows the state until ctx ends. A state that cannot be read is not
// shown: the answer to the request itself says what is wrong.
func (p *progress) follow(ctx context.Context, s source) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if f, err := s.read(ctx); err == nil {
			p.show(f)
		}
	}
}

// showing runs act and shows the state meanwhile.
func showing(ctx context.Context, a *command.App, s source, act func() error) (*progress, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	p := newProgress(a.Stderr, command.IsTerminal(a.Stderr), a.ProgressStyle())
	var done sync.WaitGroup
	done.Go(func() { p.follow(following, s) })
	err := act()
	stop()
	done.Wait()
	return p, err
}

// show draws one state.
func (p *progress) show(f *v1.Federation) {
	lines := make([][2]string, 0, len(f.Replicas)) // each with the phase in it
	for _, r := range deployed(f) {
		name := r.ClusterID + "/" + r.ServiceName
		state := r.Status.Phase
		if r.Status.Reason != "" && r.Status.Phase != v1.PhaseReady {
			state += " " + r.Status.Reason
		}
		if r.Status.Message != "" {
			state += ": " + r.Status.Message
		}
		line := output.Printable(name + "  " + state)
		lines = append(lines, [2]string{line, r.Status.Phase})
		if !p.live && p.shown[name] != state {
			fmt.Fprintln(p.w, p.coloured(line, r.Status.Phase))
		}
		p.shown[name] = state
	}
	if !p.live {
		return
	}
	var b strings.Builder
	if p.drawn > 0 {
		// Up to the first line of the block, and everything below it erased.
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.drawn)
	}
	for _, line := range lines {
		b.WriteString(p.coloured(output.Cut(line[0], p.style.Width-1), line[1]) + "\n")
	}
	p.drawn = len(lines)
	fmt.Fprint(p.w, b.String())
}

// coloured is a line with its phase, which stands after two spaces, in colour.
func (p *progress) coloured(line, phase string) string {
	return strings.Replace(line, "  "+phase, "  "+p.style.State(phase), 1)
}
