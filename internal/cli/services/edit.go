package services

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// editHead stands above the definition in the editor.
const editHead = `# The definition of %s, generation %d. Save and close to change it on all clusters.
# Close it as it is, or empty, to change nothing. A secret that is empty stays as it is.
# The script is the text itself, not the name of a file. Lines above "functions:" that begin with # are left out.
`

// maxEditTries is how often a change is sent to a federation whose record is written meanwhile.
const maxEditTries = 10

type editCmd struct {
	waiting

	Service string
	Cluster string
}

// Edit is `oscarfed edit`.
func Edit(a *command.App) *cobra.Command {
	var c editCmd
	cmd := &cobra.Command{
		Use:   "edit SERVICE",
		Short: "Change a service in an editor",
		Long: "Open the definition of a service in $VISUAL, $EDITOR or vi, and apply what is saved. What the control\n" +
			"plane refuses is opened again with the reasons. A change that somebody else makes meanwhile is never\n" +
			"overwritten. What could not be applied stays in a file.",
		Example: "  oscarfed edit grayify\n" +
			"  EDITOR=nano oscarfed edit grayify --no-wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	c.waiting.flags(f)
	return cmd
}

// edition is a definition that is edited, with the state of its federation that it was read at.
type edition struct {
	view *v1.Replicas
	// original is the definition as it is, body the text that was shown last.
	original, body []byte
	// refused says why the text that was shown last was not applied.
	refused error
}

func (c *editCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	e, err := c.read(ctx, api)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "oscarfed-edit-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, c.Service+".yaml")
	err = c.edit(ctx, a, api, e, path)
	if err != nil && !bytes.Equal(e.body, e.original) {
		a.Sayf("what was edited is in %s", path)
		return err
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// read finds the coordinator of the federation, whose definition is that of all members. The state is
// read before the definition: a change between the two is refused later, not overwritten.
func (c *editCmd) read(ctx context.Context, api *client.Client) (*edition, error) {
	view, err := api.Replicas(ctx, c.Service, c.Cluster)
	if err != nil {
		return nil, err
	}
	if over(view.Phase) {
		return nil, exit.Errorf(exit.Conflict, "%s is %s, and cannot be changed", c.Service, output.Words(view.Phase))
	}
	c.Service, c.Cluster = view.Coordinator.ServiceName, view.Coordinator.ClusterID
	s, err := c.definition(ctx, api, view)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := fdl.Write(&text, []*oscar.Service{s}); err != nil {
		return nil, err
	}
	return &edition{view: view, original: text.Bytes(), body: text.Bytes()}, nil
}

// definition is the one that was submitted, or, when it is not kept, with what OSCAR has filled in.
func (c *editCmd) definition(ctx context.Context, api *client.Client, view *v1.Replicas) (*oscar.Service, error) {
	history, err := api.History(ctx, c.Service, c.Cluster)
	if err != nil {
		return nil, err
	}
	for _, g := range history {
		if g.Generation != view.Generation {
			continue
		}
		var s oscar.Service
		if err := json.Unmarshal(g.Service, &s); err != nil {
			return nil, fmt.Errorf("generation %d: %w", g.Generation, err)
		}
		return &s, nil
	}
	return api.Service(ctx, c.Service, c.Cluster)
}

// edit opens the definition until what was saved is applied, or is what was shown.
func (c *editCmd) edit(ctx context.Context, a *command.App, api *client.Client, e *edition, path string) error {
	for {
		body, err := e.inEditor(ctx, a, path)
		switch {
		case err != nil:
			return err
		case len(bytes.TrimSpace(body)) == 0, bytes.Equal(body, e.original):
			e.body = e.original
			a.Sayf("%s: unchanged, generation %d", c.Service, e.view.Generation)
			return nil
		case e.refused != nil && bytes.Equal(body, e.body):
			return e.refused
		}
		e.body = body
		if e.refused = c.apply(ctx, a, api, e); exit.StatusOf(e.refused) != exit.Invalid || !command.IsTerminalInput(a.Stdin) {
			return e.refused
		}
	}
}

// inEditor lets the user edit the text, and gives what was saved.
func (e *edition) inEditor(ctx context.Context, a *command.App, path string) ([]byte, error) {
	var text bytes.Buffer
	fmt.Fprintf(&text, editHead, e.view.GroupID, e.view.Generation)
	if e.refused != nil {
		var why bytes.Buffer
		output.Failure(&why, output.FormTable, e.refused)
		for line := range strings.Lines(why.String()) {
			text.WriteString("# " + line)
		}
	}
	text.Write(e.body)
	data, err := a.InEditor(ctx, path, text.Bytes(), oscar.MaxServiceBytes)
	if err != nil {
		if saved, rerr := os.ReadFile(path); rerr == nil && len(saved) > 0 && !bytes.Equal(saved, text.Bytes()) {
			e.body = saved // it is kept
		}
		return nil, err
	}
	for bytes.HasPrefix(data, []byte("#")) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data, nil
}

// apply sends what was saved, as a change of the generation that was read.
func (c *editCmd) apply(ctx context.Context, a *command.App, api *client.Client, e *edition) error {
	parsed, violations := oscar.ParseFDL(e.body)
	if len(violations) > 0 {
		return fdl.Invalid(violations)
	}
	if len(parsed.Functions) != 1 || parsed.Functions[0].Service.Name != c.Service {
		return exit.Errorf(exit.Invalid, "one service is edited, %s; others and new names are for apply", c.Service)
	}
	s := fdl.Service{Service: parsed.Functions[0].Service, Line: parsed.Functions[0].Line}
	if s.ClusterID != "" && s.ClusterID != c.Cluster {
		return exit.Errorf(exit.Invalid, "%s is on %s, and cannot move to %s", s.At(), c.Cluster, s.ClusterID)
	}
	s.ClusterID = c.Cluster
	if err := warnOf(a, []fdl.Service{s}, false); err != nil {
		return err
	}
	err := c.waiting.run(ctx, a, api, changeOf{
		service: c.Service, cluster: c.Cluster, generation: e.view.Generation,
		send: func(opts client.ChangeOptions) (*v1.Replicas, error) { return c.send(ctx, api, e, s.Service, opts) },
	})
	return ofDefined(err, s)
}

// send changes the generation that was read. That its record was written since, by a report of a
// cluster, is no reason to refuse.
func (c *editCmd) send(ctx context.Context, api *client.Client, e *edition, s *oscar.Service, opts client.ChangeOptions) (*v1.Replicas, error) {
	for tries := 1; ; tries++ {
		opts.IfMatch = e.view.Revision
		view, err := api.ChangeService(ctx, s, opts)
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Code() != v1.CodeConflict {
			return view, err
		}
		now, rerr := api.Replicas(ctx, c.Service, c.Cluster)
		switch {
		case rerr != nil || now.Revision == e.view.Revision || tries == maxEditTries:
			return nil, err
		case now.UID != e.view.UID || now.Generation != e.view.Generation:
			return nil, exit.Errorf(exit.Conflict, "%s was changed meanwhile: it was generation %d, and is %d; nothing is written",
				c.Service, e.view.Generation, now.Generation)
		}
		e.view, opts.IdempotencyKey = now, uuid.NewString()
	}
}
