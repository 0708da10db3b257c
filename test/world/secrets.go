package world

import (
	"context"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// Secrets is the Kubernetes below a simulated OSCAR, as far as its Secrets go.
type Secrets struct {
	kube.Absent
	Of func() *oscarsim.Sim
}

// SecretLeft implements kube.Interface.
func (k Secrets) SecretLeft(_ context.Context, owner, service string) (bool, error) {
	_, left := k.Of().State().Secrets[kube.Namespace(kube.ServicesNamespace, owner)+"/"+service]
	return left, nil
}
