package jobs

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type jobSubmitCmd struct {
	Service string
	File    string
	Cluster string
	Key     string
	Base64  bool
	Wait    bool
	Timeout time.Duration
}

// Submit is `oscarfed job submit`.
func Submit(a *command.App) *cobra.Command {
	var c jobSubmitCmd
	cmd := &cobra.Command{
		Use:   "submit SERVICE",
		Short: "Hand an event over to a service",
		Long:  "Hand an event over to a service: a job, on the cluster that the federation's policy picks.",
		Example: "  oscarfed job submit grayify -f event.json\n" +
			"  oscarfed job submit grayify -f photo.jpg --base64\n" +
			"  echo '{\"photo\":\"1.jpg\"}' | oscarfed job submit grayify -f - --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.File(&c.File, "File with the event; - for standard input. Without it the event is empty.")
	f.ClusterOf(&c.Cluster)
	f.Text(&c.Key, "idempotency-key", "", "", "KEY", "Sent again with the same key it is the same job, for 24 hours.")
	f.BoolVarP(&c.Base64, "base64", "", false, "Send the content as base64, which OSCAR's supervisor decodes: for all that is not JSON.")
	f.BoolVarP(&c.Wait, "wait", "", false, "Wait until the job has ended. Ends with 0 when it succeeded, 1 when it ended otherwise.")
	f.TimeoutOrNone(&c.Timeout, 0, "With --wait: how long; 0 is as long as it takes. The job goes on afterwards.")
	return cmd
}

func (c *jobSubmitCmd) Run(ctx context.Context, a *command.App) error {
	if c.Timeout > 0 && !c.Wait {
		return exit.Usagef("--timeout goes with --wait")
	}
	event, err := c.event(a)
	if err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	c.Key = cmp.Or(c.Key, uuid.NewString())
	job, err := api.SubmitJob(ctx, c.Service, event, client.JobOptions{ClusterID: c.Cluster, IdempotencyKey: c.Key})
	if err != nil {
		if exit.StatusOf(err) == exit.InProgress || ctx.Err() != nil {
			a.Sayf("the same again is the same job: %s", c.again())
		}
		return err
	}
	if c.Wait {
		a.Sayf("job %s is accepted", job.ID)
		return c.await(ctx, a, api, job.ID)
	}
	if a.Form == output.FormTable || a.Form == output.FormName {
		_, err := fmt.Fprintln(a.Stdout, output.Printable(job.ID))
		return err
	}
	return output.Encode(a.Stdout, a.Form, submitted{ID: job.ID, Location: job.Location})
}

// again is the command that sends the same job once more. With another key it would be another one.
func (c *jobSubmitCmd) again() string {
	line := "oscarfed job submit " + c.Service
	if c.File != "" {
		line += " -f " + c.File
	}
	if c.Cluster != "" {
		line += " --cluster " + c.Cluster
	}
	if c.Base64 {
		line += " --base64"
	}
	return line + " --idempotency-key " + c.Key
}

// submitted is what submit prints for programs.
type submitted struct {
	ID       string `json:"id"`
	Location string `json:"location"`
}

// event is what is sent.
func (c *jobSubmitCmd) event(a *command.App) ([]byte, error) {
	if !c.Base64 {
		return readEvent(a, c.File, oscar.MaxEventBytes)
	}
	content, err := readEvent(a, c.File, base64.StdEncoding.DecodedLen(oscar.MaxEventBytes))
	return base64.StdEncoding.AppendEncode(nil, content), err
}

// readEvent reads an event of at most so many bytes from a file, or from standard input.
func readEvent(a *command.App, path string, most int) ([]byte, error) {
	in := a.Stdin
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.Errorf(exit.Invalid, "%w", err)
		}
		defer f.Close() //nolint:errcheck // it was read
		in = f
	}
	event, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	if len(event) > most {
		return nil, exit.Errorf(exit.Invalid, "%s is larger than %d bytes: put the data into a bucket, and into the event where it is", path, most)
	}
	return event, nil
}

// await follows a job to its end, shows each state, and prints it as it ended.
func (c *jobSubmitCmd) await(ctx context.Context, a *command.App, api *client.Client, id string) error {
	waiting := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	last, err := Follow(waiting, a, api, id, func(j *v1.Job) bool { return v1.JobEnded(j.State) })
	switch {
	case errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil:
		state := "not known"
		if last != nil {
			state = last.State
		}
		return exit.Errorf(exit.InProgress, "job %s has not ended within %s, its state is %s; it goes on", id, c.Timeout, state)
	case err != nil:
		return err
	}
	if err := showJob(a, last); err != nil {
		return err
	}
	if last.State != v1.JobSucceeded {
		return exit.Errorf(exit.Failed, "job %s: %s", id, State(last))
	}
	return nil
}
