package clusters

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getCapacityCmd struct{}

// GetCapacity is `oscarfed get capacity`.
func GetCapacity(a *command.App) *cobra.Command {
	var c getCapacityCmd
	return &cobra.Command{
		Use:     "capacity",
		Short:   "What each cluster has free for jobs",
		Example: "  oscarfed get capacity",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (getCapacityCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	status, err := api.Status(ctx)
	if err != nil {
		return err
	}
	return a.Print(status, func() *output.Table {
		t := output.NewTable("CLUSTER", "NODES", "CPU FREE", "ON ONE NODE", "MEMORY FREE", "GPU FREE", "PROMISED", "AGE")
		for _, c := range status.Clusters {
			if !c.Fresh {
				told := "not known"
				if c.FailingSince != nil {
					told += " for " + output.Age(c.FailingSince.Time, a.Now()) + ": " + c.Message
				}
				t.Row(c.ClusterID, "-", "-", "-", "-", "-", "-", told)
				continue
			}
			told := ""
			if c.ChangedAt != nil {
				told = lastLook(c.ChangedAt.Time, time.Duration(c.LookEvery)*time.Second, a.Now())
			}
			t.Row(c.ClusterID, fmt.Sprint(c.Nodes), cpuFree(&c), fmt.Sprintf("%dm", c.CPU.MaxFree), memoryFree(&c),
				fmt.Sprintf("%d/%d", c.GPU.Free, c.GPU.Allocatable), fmt.Sprintf("%dm", c.CPU.Promised), told)
		}
		return t
	})
}

// lastLook is how long ago a syncer that is alive has looked. It tells of a look that has found
// a change, and of others only how often they are.
func lastLook(changed time.Time, every time.Duration, now time.Time) string {
	if every > 0 && now.Sub(changed) >= every {
		return "<" + output.Age(now.Add(-every), now)
	}
	return output.Age(changed, now)
}

func cpuFree(c *v1.ClusterStatus) string {
	return fmt.Sprintf("%dm/%dm", c.CPU.Free, c.CPU.Allocatable)
}

func memoryFree(c *v1.ClusterStatus) string {
	return fmt.Sprintf("%dMi/%dMi", c.Memory.Free>>20, c.Memory.Allocatable>>20)
}
