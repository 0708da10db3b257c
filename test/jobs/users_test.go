package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// tokenLife is that of an access token: a syncer uses one while it is good for 10 s
	// more. Every job outlives the one that its federation was made with.
	tokenLife = 35 * time.Second
	// firstUser and further federations belong to users, the others to the administrator.
	firstUser = federationCount / 2
)

// users are the owners of some federations. The access tokens that they came with
// expire soon; one holder for each federation has their refresh token.
type users struct {
	issuer *issuer.Issuer
	vaults map[string]*token.Memory
}

func newUsers(p *proof) *users {
	u := &users{issuer: issuer.New(p.t, ""), vaults: map[string]*token.Memory{}}
	u.issuer.Grant(issuer.Grants{Rotate: true, Lifetime: tokenLife})
	for _, id := range p.ids {
		u.vaults[id] = &token.Memory{}
	}
	return u
}

// owner of a federation.
func owner(i int) string { return fmt.Sprintf("user-%d", i) }

func ofUser(i int) bool { return i >= firstUser }

// caller is the user that submits a job of a federation, or cancels it.
func caller(federation int) identity.Caller {
	if ofUser(federation) {
		return identity.Caller{Subject: owner(federation)}
	}
	return admin
}

// create makes a federation: a mesh of all clusters, each with another coordinator.
func (p *proof) create(i int) {
	p.t.Helper()
	var members []string
	for k := range clusterCount {
		if k != i {
			members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":%q}`, p.ids[k], replica(i, k)))
		}
	}
	for began := time.Now(); ; {
		api, refresh := p.Client, ""
		if ofUser(i) {
			p.AddUser(owner(i))
			api = p.WithToken(p.Token(owner(i), map[string]any{"exp": time.Now().Add(tokenLife).Unix()}))
			refresh = fmt.Sprintf(`"environment":{"secrets":{"refresh_token":%q}},`, p.users.issuer.RefreshToken(owner(i)))
		}
		s := world.Service(p.t, fmt.Sprintf(`{"name":%q,"cluster_id":%q,"image":"i","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",%s
"federation":{"topology":"mesh","delegation":"random","members":[%s]}}`, p.name(i), p.ids[i], refresh, strings.Join(members, ",")))
		_, err := api.CreateService(p.t.Context(), s, client.CreateOptions{Wait: await.Limit})
		if err == nil {
			return
		}
		if time.Since(began) > await.Limit {
			p.t.Fatal(err)
		}
		p.t.Logf("%s, once more: %v", p.name(i), err) // on a busy machine a cluster may seem away
	}
}

// replica is the name of a federation's service on a cluster.
func replica(federation, cluster int) string {
	if federation == cluster {
		return fmt.Sprintf("work%d", federation)
	}
	return fmt.Sprintf("work%d-%d", federation, cluster)
}

// remove deletes a service at its OSCAR, behind everybody's back. Its syncer makes it
// again: that of a user with a fresh token of his.
func (p *proof) remove(federation, cluster int) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second) // to hang is one of the OSCAR's faults
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, p.Cluster(p.ids[cluster]).URL+"/system/services/"+replica(federation, cluster), http.NoBody)
	if err != nil {
		return err
	}
	req.SetBasicAuth(world.User, world.Password)
	resp, err := p.HTTP().Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		return errors.Join(fmt.Errorf("it was answered %s", resp.Status), resp.Body.Close())
	}
	return resp.Body.Close()
}

// whole waits until every service stands: what was deleted was made again, and tokens
// were there for it.
func (p *proof) whole() {
	p.t.Helper()
	for i := range federationCount {
		for k := range clusterCount {
			asked := time.Now()
			p.Eventually(fmt.Sprintf("%s stands on %s", replica(i, k), p.ids[k]), func() bool {
				_, there := p.Cluster(p.ids[k]).Sim.Service(replica(i, k))
				if !there && time.Since(asked) > time.Second {
					// What was gone when the store was restored is made again when a person says so.
					asked = time.Now()
					_, _ = p.pick(0).Recovery.Resolve(p.t.Context(), admin, recovery.ResolveRequest{
						ClusterID: p.ids[k], ServiceName: replica(i, k), Keep: v1.KeepStore,
					})
				}
				return there
			})
		}
	}
}

// away makes an OSCAR refuse every connection; back ends that.
func away(sim *oscarsim.Sim) error {
	return sim.SetFault(oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultRefuse})
}

func back(sim *oscarsim.Sim) error {
	return sim.SetFault(oscarsim.Fault{Op: oscarsim.OpAny})
}
