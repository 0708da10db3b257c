package cli

import (
	"context"
	"fmt"
)

type getCapacityCmd struct{}

func (getCapacityCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	status, err := api.Status(ctx)
	if err != nil {
		return err
	}
	return a.print(status, func() *table {
		t := newTable("CLUSTER", "NODES", "CPU FREE", "ON ONE NODE", "MEMORY FREE", "GPU FREE", "PROMISED", "AGE")
		for _, c := range status.Clusters {
			if !c.Fresh {
				t.row(c.ClusterID, "-", "-", "-", "-", "-", "-", "not known")
				continue
			}
			told := ""
			if c.ChangedAt != nil {
				told = age(c.ChangedAt.Time, a.now())
			}
			t.row(c.ClusterID, fmt.Sprint(c.Nodes), fmt.Sprintf("%dm/%dm", c.CPU.Free, c.CPU.Allocatable), fmt.Sprintf("%dm", c.CPU.MaxFree),
				fmt.Sprintf("%dMi/%dMi", c.Memory.Free>>20, c.Memory.Allocatable>>20),
				fmt.Sprintf("%d/%d", c.GPU.Free, c.GPU.Allocatable), fmt.Sprintf("%dm", c.CPU.Promised), told)
		}
		return t
	})
}
