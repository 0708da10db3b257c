package services

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getDeletedCmd struct {
	Group string
}

// GetDeleted is `oscarfed get deleted`.
func GetDeleted(a *command.App) *cobra.Command {
	var c getDeletedCmd
	return &cobra.Command{
		Use:   "deleted [GROUP]",
		Short: "Replicas deleted in the last 90 days",
		Long:  "Replicas that were deleted in the last 90 days, and which buckets stay.",
		Example: "  oscarfed get deleted\n" +
			"  oscarfed get deleted grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Group = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *getDeletedCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	list, err := api.Deleted(ctx, c.Group)
	if err != nil {
		return err
	}
	return a.Print(list, func() *output.Table {
		t := output.NewTable("GROUP", "REPLICA", "CAUSE", "AGE", "BUCKETS")
		for i := range list {
			d := &list[i]
			since := "pending"
			if d.DeletedAt != nil {
				since = output.Age(d.DeletedAt.Time, a.Now())
			}
			t.Row(d.GroupID, d.ClusterID+"/"+d.ServiceName, d.Cause, since, bucketsText(d))
		}
		return t
	})
}

// sayDeleted tells, for each replica that went, what stays on its cluster.
func sayDeleted(a *command.App, list []v1.DeletedReplica) {
	for i := range list {
		a.Sayf("  %s/%s: %s", list[i].ClusterID, list[i].ServiceName, bucketsText(&list[i]))
	}
}

// bucketsText says in one line what became of a replica's volume and buckets.
func bucketsText(d *v1.DeletedReplica) string {
	if d.Pending {
		if d.Message != "" {
			return "not yet gone: " + d.Message
		}
		return "not yet gone"
	}
	var out []string
	if v := d.Volume; v != nil {
		text := "volume " + v.Volume + " is deleted"
		if v.Fate != "deleted" {
			text = "volume " + v.Volume + " stays"
			if v.Why != "" {
				text += ", since " + v.Why
			}
		}
		out = append(out, text)
	}
	if len(d.Buckets)+len(out) == 0 {
		return "no bucket stays"
	}
	for _, b := range d.Buckets {
		text := "bucket " + b.Bucket + " is deleted"
		if b.Fate != "deleted" {
			text = "bucket " + b.Bucket + " stays"
			switch {
			case b.Objects == nil:
				text += ", its objects are not counted"
			case b.AtLeast:
				text += fmt.Sprintf(" with at least %s", output.Count(int(*b.Objects), "object"))
			default:
				text += fmt.Sprintf(" with %s", output.Count(int(*b.Objects), "object"))
			}
			if b.Why != "" {
				text += ", since " + b.Why
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
