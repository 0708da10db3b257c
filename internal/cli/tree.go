package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/account"
	"github.com/oscarfed/oscarfed/internal/cli/clusters"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/jobs"
	"github.com/oscarfed/oscarfed/internal/cli/services"
)

// The groups of the commands in help.
const (
	groupServices = "services"
	groupJobs     = "jobs"
	groupClusters = "clusters"
	groupOther    = "other"
)

// tree is all commands of this package: where a command hangs, and under which heading it is shown.
func tree(a *command.App) []*cobra.Command {
	return slices.Concat(
		in(groupServices,
			services.Apply(a),
			services.Plan(a),
			services.Diff(a),
			services.Edit(a),
			getParent(
				services.GetFederations(a), services.GetReplicas(a), services.GetServices(a), services.GetDeleted(a),
				clusters.GetAudit(a), clusters.Get(a), clusters.GetCapacity(a), account.GetUsage(a), jobs.GetJobs(a)),
			services.Describe(a),
			services.Graph(a),
			services.Wait(a),
			parent("replica", "Add and remove members of a service's federation",
				services.ReplicaAdd(a), services.ReplicaRemove(a)),
			parent("service", "Start, stop and restart exposed services",
				services.ServiceStart(a), services.ServiceStop(a), services.ServiceRestart(a)),
			services.History(a),
			services.Rollback(a),
			services.Pause(a),
			services.Resume(a),
			services.Delete(a),
			parent("token", "Manage the refresh token of a service's owner",
				account.TokenNew(a), services.TokenShow(a), services.TokenSet(a), services.TokenRefresh(a), services.TokenRotate(a), services.TokenDelete(a)),
		),
		in(groupJobs,
			parent("job", "Submit, list, show, cancel, replay and resolve jobs",
				jobs.Submit(a), jobs.List(a), jobs.Get(a), jobs.Logs(a, "job logs"),
				jobs.Cancel(a), jobs.Replay(a), jobs.Resolve(a)),
			services.Explain(a, jobs.Explain(a)),
			jobs.Logs(a, "logs"),
			jobs.Webhook(a),
		),
		in(groupClusters,
			parent("cluster", "Register, list and remove clusters",
				clusters.Add(a), clusters.Join(a), clusters.Set(a), clusters.List(a), clusters.Remove(a),
				clusters.Cordon(a), clusters.Activate(a, "uncordon", "End a cordon"),
				clusters.Pause(a), clusters.Activate(a, "resume", "End a pause"),
				clusters.Readmit(a)),
			services.Resolve(a),
			clusters.Events(a),
			clusters.Top(a),
			parent("audit", "Check an audit that was exported",
				clusters.AuditVerify(a)),
		),
		in(groupOther,
			account.Login(a),
			account.Logout(a),
			account.WhoAmI(a),
			account.Doctor(a),
			account.SupportBundle(a),
			account.FinishUpgrade(a),
			parent("context", "List, choose and change the contexts of the configuration file",
				account.ContextList(a), account.ContextUse(a), account.ContextSet(a)),
			newVersionCmd(a),
			newManCmd(a),
		),
	)
}

func groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: groupServices, Title: "Services and federations:"},
		{ID: groupJobs, Title: "Jobs:"},
		{ID: groupClusters, Title: "Clusters and the control plane:"},
		{ID: groupOther, Title: "Other commands:"},
	}
}

func in(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}

// parent is a command that only has others below it.
func parent(name, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short}
	cmd.AddCommand(children...)
	return cmd
}

// getParent is the parent of the commands that list something.
func getParent(kinds ...*cobra.Command) *cobra.Command {
	cmd := parent("get", "List federations, services, jobs, clusters and more", kinds...)
	cmd.Example = "  oscarfed get federations\n  oscarfed get clusters -o yaml"
	return cmd
}
