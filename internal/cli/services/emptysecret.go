package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
)

// An empty secret of a service that is there means unchanged. `get services -o fdl` shows all of them so, and applied for a
// service that is not there any more they would be empty, which is seen when its jobs fail.

// emptySecrets are the paths of the secrets without a value.
func emptySecrets(s *oscar.Service) (paths []string) {
	add := func(path string, values map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if values[key] == "" {
				paths = append(paths, path+"."+key)
			}
		}
	}
	add("environment.secrets", s.Environment.Secrets)
	if s.Federation != nil {
		for i, m := range s.Federation.Members {
			add(fmt.Sprintf("federation.members[%d].headers", i), m.Headers)
		}
	}
	return paths
}

func sayEmptySecrets(a *command.App, s *oscar.Service) {
	if empty := emptySecrets(s); len(empty) > 0 {
		a.Sayf("warning: %s is new, and secrets of it have no value (%s): get services -o fdl shows none; set them in the FDL, and apply it again",
			s.Name, strings.Join(empty, ", "))
	}
}

// warnOfEmptySecrets says which secrets a creation would leave empty. Where it is not known whether there is such a service,
// the creation tells why.
func warnOfEmptySecrets(ctx context.Context, a *command.App, api *client.Client, services []fdl.Service) {
	for _, s := range services {
		if len(emptySecrets(s.Service)) == 0 {
			continue
		}
		there, err := api.Replicas(ctx, s.Name, s.ClusterID)
		if e, ok := errors.AsType[*client.Error](err); ok && e.Code() == v1.CodeNotFound || err == nil && over(there.Phase) {
			sayEmptySecrets(a, s.Service)
		}
	}
}
