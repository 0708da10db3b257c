package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// People are users of an OpenID issuer. Each has services of his own: private ones, of which nobody
// else may see anything, and public ones, which nobody else may change.

// Deed is what one of them does.
type Deed struct {
	Op string
	// Who does it, and Whose service it is about.
	Who   int
	Whose int `json:"whose,omitempty"`
	// Service is its number, Topology and Members what is wanted: a bit for each cluster.
	Service  int
	Topology string `json:"topology,omitempty"`
	Members  uint8  `json:"members,omitempty"`
	// For is how long an access token is good.
	For time.Duration `json:"for,omitempty"`
}

// String names the deed.
func (d Deed) String() string {
	out := fmt.Sprintf("%s %s %s %04b", d.Op, personService(d.Whose, d.Service), d.Topology, d.Members)
	if d.For != 0 {
		out = fmt.Sprintf("%s for %v", d.Op, d.For.Round(time.Second))
	}
	return fmt.Sprintf("person %d: %s", d.Who, out)
}

// Deeds.
const (
	deedCreate  = "create"
	deedChange  = "change"
	deedDelete  = "delete"
	deedSubmit  = "submit a job to"
	deedLook    = "look at everything besides"
	deedMeddle  = "meddle with"
	deedToken   = "get an access token"
	deedRefresh = "give a new refresh token to"
	deedRevoke  = "revoke the refresh token of"
	deedLeave   = "leave the group, not"
	deedJoin    = "join the group, not"
)

func deeds() []string {
	return []string{
		deedCreate, deedCreate, deedCreate, deedCreate, deedChange, deedChange, deedDelete, deedSubmit, deedSubmit, deedSubmit, deedLook, deedLook,
		deedMeddle, deedMeddle, deedMeddle, deedToken, deedToken, deedRefresh, deedRevoke, deedLeave, deedJoin, deedJoin,
	}
}

const (
	// mostPeople is how many there are at most, and each has personServices: the first is private.
	mostPeople     = 3
	personServices = 2
	// hostIssuer is where the issuer is.
	hostIssuer = "issuer"
	// faultIssuer makes the issuer answer with an error.
	faultIssuer = "error of"
)

func personService(who, service int) string { return fmt.Sprintf("person%d-%d", who, service) }

func personSubject(who int) string {
	return fmt.Sprintf("%d5bb11b4f2c6%s@egi.eu", who, strings.Repeat("/person", who%2))
}

// private says whether only its owner may see a service.
func private(service int) bool { return service == 0 }

// drawPeople draws people for some of the plans, and what is wrong with their issuer.
func (d *drawer) drawPeople(rng *rand.Rand) {
	if rng.IntN(4) > 0 {
		return
	}
	d.plan.Shape.People = 2 + rng.IntN(mostPeople-1)
	with := &drawer{rng: rng, plan: d.plan, length: d.length}
	for who := range d.plan.Shape.People {
		with.client(personClient+who, 6+rng.IntN(10), func() Step {
			deed := &Deed{
				Op: pick(rng, deeds()...), Who: who, Whose: who, Service: rng.IntN(personServices), Topology: pick(rng, "none", "star", "mesh"),
				Members: uint8(rng.UintN(1 << d.plan.Shape.All())),
			}
			switch deed.Op {
			case deedToken:
				deed.For = pick(rng, time.Minute, 5*time.Minute, time.Hour)
			case deedMeddle:
				deed.Whose = (who + 1 + rng.IntN(d.plan.Shape.People-1)) % d.plan.Shape.People
			}
			return Step{Deed: deed}
		})
	}
	for range rng.IntN(3) {
		f := Fault{Kind: faultIssuer, On: hostIssuer, For: time.Second + time.Duration(rng.ExpFloat64()*float64(time.Minute))}
		if rng.IntN(2) == 0 {
			f.Kind, f.To = pick(rng, faultCut, faultDelay, faultDeaf), f.On
			f.On = pick(rng, hostControlPlane(rng.IntN(d.plan.Shape.ControlPlanes)), hostSyncer(rng.IntN(d.plan.Shape.All())))
			if f.Kind == faultDelay {
				f.Amount = time.Duration(rng.Int64N(int64(10 * time.Second)))
			}
		}
		d.plan.Steps = append(d.plan.Steps, Step{At: time.Duration(rng.Int64N(int64(d.length))), Fault: &f})
	}
}

// issuerFails says whether a plan has a time in which the issuer cannot be asked.
func (p Plan) issuerFails() bool {
	for _, s := range p.Steps {
		if s.Fault != nil && (s.Fault.On == hostIssuer || s.Fault.To == hostIssuer) {
			return true
		}
	}
	return false
}

// definitionOf is what a person wants of a service.
func (u *users) definitionOf(d Deed, refresh string) *oscar.Service {
	name, home := personService(d.Who, d.Service), u.homeOf(d.Who, d.Service)
	federation := map[string]any{"topology": d.Topology, "delegation": "random"}
	if members := u.members(name, home, d.Members); d.Topology != string(oscar.TopologyNone) && len(members) > 0 {
		federation["members"] = members
	}
	visibility, script := "public", "#!/bin/sh\n# "+d.String()+"\n"
	if private(d.Service) {
		visibility, script = "private", "#!/bin/sh\n# "+privateOf(d.Who)+"\n# "+d.String()+"\n"
	}
	return mustParse(map[string]any{
		"name": name, "cluster_id": home, "image": "ghcr.io/grycap/imagemagick", "script": script, "visibility": visibility,
		"environment": map[string]any{"secrets": map[string]string{"KEY": secret, "refresh_token": refresh}},
		"federation":  federation,
	})
}

// homeOf is the cluster of a service's coordinator.
func (u *users) homeOf(who, service int) string { return u.clusters[(who+service)%len(u.clusters)] }

// privateOf is in every private service of a person, and may be shown to nobody else.
func privateOf(who int) string { return fmt.Sprintf("canary-private-of-person-%d", who) }
