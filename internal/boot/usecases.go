package boot

import (
	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane"
)

// UseCases gives the routes the use cases of an instance, each from the package that has it.
func UseCases(cp *controlplane.ControlPlane) server.UseCases {
	return server.UseCases{
		Services:    cp.Federations,
		Federations: cp.Federations,
		Clusters:    cp.Clusters,
		Joins:       cp.Clusters,
		Plans:       cp.Plans,
		Status:      cp,
		Storage:     cp.Runs,
		Differences: cp.Recovery,
		Audit:       cp.Requests,
		Usage:       cp.Requests,
		Changes:     cp.Watch,
		Events:      cp.Events,
		Stats:       cp.Stats,
		Support:     cp.Support,
		Upgrades:    cp.Forms,
		Tokens:      cp.Tokens,
		Jobs:        cp.Jobs,
		JobLogs:     cp.Runs,
		Streams:     cp.Clusters,
		Invocations: cp.Runs,
	}
}
