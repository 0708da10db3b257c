package cli

import "github.com/spf13/cobra"

// The groups of the commands in help.
const (
	groupServices = "services"
	groupJobs     = "jobs"
	groupClusters = "clusters"
	groupOther    = "other"
)

// tree is all commands of this package: where a command hangs, and under which heading it is shown.
func tree(a *app) []*cobra.Command {
	return joined(
		in(groupServices,
			newApplyCmd(a),
			newPlanCmd(a),
			newDiffCmd(a),
			newGetCmd(a,
				newGetFederationsCmd(a), newGetReplicasCmd(a), newGetServicesCmd(a), newGetDeletedCmd(a),
				newGetAuditCmd(a), newGetClustersCmd(a), newGetCapacityCmd(a), newGetUsageCmd(a)),
			newDescribeCmd(a),
			newGraphCmd(a),
			newWaitCmd(a),
			parent("replica", "Add and remove members of a service's federation",
				newReplicaAddCmd(a), newReplicaRemoveCmd(a)),
			parent("service", "Start, stop and restart exposed services",
				newServiceStartCmd(a), newServiceStopCmd(a), newServiceRestartCmd(a)),
			newHistoryCmd(a),
			newRollbackCmd(a),
			newPauseCmd(a),
			newResumeCmd(a),
			newDeleteCmd(a),
			parent("token", "Manage the refresh token of a service's owner",
				newTokenShowCmd(a), newTokenSetCmd(a), newTokenRefreshCmd(a), newTokenRotateCmd(a), newTokenDeleteCmd(a)),
		),
		in(groupJobs,
			parent("job", "Submit, list, show, cancel, replay and resolve jobs",
				newJobSubmitCmd(a), newJobListCmd(a), newJobGetCmd(a), newJobLogsCmd(a, "job logs"),
				newJobCancelCmd(a), newJobReplayCmd(a), newJobResolveCmd(a)),
			newExplainCmd(a, newExplainJobCmd(a)),
			newJobLogsCmd(a, "logs"),
			newWebhookCmd(a),
		),
		in(groupClusters,
			parent("cluster", "Register, list and remove clusters",
				newClusterAddCmd(a), newClusterJoinCmd(a), newClusterSetCmd(a), newClusterListCmd(a), newClusterRemoveCmd(a),
				newClusterCordonCmd(a), newClusterActivateCmd(a, "uncordon", "End a cordon"),
				newClusterPauseCmd(a), newClusterActivateCmd(a, "resume", "End a pause"),
				newClusterReadmitCmd(a)),
			newResolveCmd(a),
			newEventsCmd(a),
			newTopCmd(a),
			parent("audit", "Check an audit that was exported",
				newAuditVerifyCmd(a)),
		),
		in(groupOther,
			newLoginCmd(a),
			newLogoutCmd(a),
			newWhoAmICmd(a),
			newDoctorCmd(a),
			parent("context", "List, choose and change the contexts of the configuration file",
				newContextListCmd(a), newContextUseCmd(a), newContextSetCmd(a)),
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

func joined(lists ...[]*cobra.Command) (all []*cobra.Command) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// parent is a command that only has others below it.
func parent(name, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short}
	cmd.AddCommand(children...)
	return cmd
}
