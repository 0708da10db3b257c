package services

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// waiting are the flags of commands that change a federation.
type waiting struct {
	Wait    bool
	Timeout time.Duration
}

func (w *waiting) flags(f command.Flags) {
	f.YesOrNo(&w.Wait, "wait", "Wait until the change is applied everywhere.")
	f.Timeout(&w.Timeout, command.DefaultTimeout, "How long to wait. The work goes on afterwards.")
}

// changeOf is a change of one service's federation.
type changeOf struct {
	service, cluster string
	// generation before the change; 0 when it is not known.
	generation int64
	send       func(client.ChangeOptions) (*v1.Replicas, error)
}

// run carries out a change, shows the replicas meanwhile, and prints the
// federation as the service sees it then. What is not applied yet when the wait
// ends is in progress: it is committed.
func (w waiting) run(ctx context.Context, a *command.App, api *client.Client, ch changeOf) error {
	opts := client.ChangeOptions{ClusterID: ch.cluster, Wait: w.Timeout, Async: !w.Wait, IdempotencyKey: uuid.NewString()}
	started := a.Now()
	var view *v1.Replicas
	send := func() (err error) {
		view, err = ch.send(opts)
		return err
	}
	var err error
	if w.Wait {
		_, err = showing(ctx, a, source{api: api, service: ch.service, cluster: ch.cluster}, send)
	} else {
		err = send()
	}
	if err != nil {
		return err
	}
	if err := a.Print(view, func() *output.Table { return viewTable(view) }); err != nil {
		return err
	}
	sayDeleted(a, view.Removed)
	word := "changed"
	if view.Generation == ch.generation {
		word = "unchanged"
	}
	applied, replicas := progressOf(view)
	if !w.Wait {
		a.Sayf("%s: %s, generation %d", ch.service, word, view.Generation)
		return nil
	}
	if applied < replicas {
		return exit.Errorf(exit.InProgress, "%s: %s, generation %d; %d of %s have applied it. The others follow by themselves; oscarfed describe %s shows them",
			ch.service, word, view.Generation, applied, output.Count(replicas, "replica"), ch.service)
	}
	a.Sayf("%s: %s, generation %d, %d of %s ready after %s",
		ch.service, word, view.Generation, applied, output.Count(replicas, "replica"), a.Now().Sub(started).Round(10*time.Millisecond))
	return nil
}

// progressOf counts the replicas of a view and those that have applied its
// generation.
func progressOf(view *v1.Replicas) (applied, replicas int) {
	for _, r := range append([]v1.Replica{view.Self}, view.Replicas...) {
		if r.Status == nil {
			continue
		}
		replicas++
		if r.Status.Phase == v1.PhaseReady && r.Status.ObservedGeneration >= view.Generation {
			applied++
		}
	}
	return applied, replicas
}
