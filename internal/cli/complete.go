package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/services"
)

// completionTime is how long a person who presses the tabulator waits for names.
const completionTime = 3 * time.Second

// names lists what a word of a command line can be.
type names func(ctx context.Context, api *client.Client) ([]string, error)

// completeArgument lists what can stand in the place of a word of the line of usage.
func completeArgument(a *command.App, cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	words := strings.Fields(cmd.Use)[1:]
	if len(words) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	word := words[min(len(args), len(words)-1)]
	if len(args) >= len(words) && !strings.Contains(word, "...") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	switch strings.Trim(word, "[].") {
	case "SERVICE":
		return complete(a, serviceNames)(cmd, args, prefix)
	case "CLUSTER":
		return complete(a, clusterNames)(cmd, args, prefix)
	case "JOB":
		return complete(a, jobNames)(cmd, args, prefix)
	case "GROUP", "FEDERATION":
		return complete(a, groupNames)(cmd, args, prefix)
	case "MEMBER", "CLUSTER/SERVICE":
		return complete(a, memberNames)(cmd, args, prefix)
	case "CONTEXT":
		return contextNames(a)
	case "FIELD":
		return services.KeyNames(), cobra.ShellCompDirectiveNoFileComp
	case "FILE":
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func contextNames(a *command.App) (list []string, _ cobra.ShellCompDirective) {
	contexts, err := a.Flags.Contexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, c := range contexts {
		list = append(list, c.Name)
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// complete asks the API for names. Where it cannot be asked there are none: a shell shows no error.
func complete(a *command.App, list names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if err := settle(a, cmd.Flags()); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		api, err := a.Dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		all, err := list(ctx, api)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				found = append(found, name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func serviceNames(ctx context.Context, api *client.Client) (list []string, err error) {
	services, err := api.Services(ctx)
	for _, s := range services {
		list = append(list, s.Name)
	}
	return list, err
}

func memberNames(ctx context.Context, api *client.Client) (list []string, err error) {
	services, err := api.Services(ctx)
	for _, s := range services {
		list = append(list, s.ClusterID+"/"+s.Name)
	}
	return list, err
}

func clusterNames(ctx context.Context, api *client.Client) (list []string, err error) {
	clusters, err := api.Clusters(ctx)
	for _, c := range clusters {
		list = append(list, c.ClusterID)
	}
	return list, err
}

func groupNames(ctx context.Context, api *client.Client) (list []string, err error) {
	federations, err := api.Federations(ctx)
	for i := range federations {
		list = append(list, federations[i].GroupID)
	}
	return list, err
}

// jobNames are those of the newest jobs.
func jobNames(ctx context.Context, api *client.Client) (list []string, err error) {
	page, err := api.Jobs(ctx, client.JobQuery{Limit: 100})
	if err != nil {
		return nil, err
	}
	for i := range page.Jobs {
		list = append(list, page.Jobs[i].ID)
	}
	return list, nil
}
