package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// groupsHold is how long a control plane believes what an issuer said of a user's groups, and
	// groupsBelieved while it cannot ask; both with some time for a request.
	groupsHold     = 7 * time.Minute
	groupsBelieved = 67 * time.Minute
	// tokenLife is how long the first access token of a person is good, and expiryLag what a request
	// may take.
	tokenLife = time.Hour
	expiryLag = time.Minute
	// issued is how long an access token is good that a refresh token is exchanged for.
	issued = 10 * time.Minute
	// ownersPause is how often people look after their services at the end.
	ownersPause = 10 * time.Minute
	// eventsOf separates the events of people from each other's, and from those of other users.
	eventsOf = 10_000
)

// people are the users of a history's issuer.
type people struct {
	issuer *issuer.Issuer
	// vaults have the refresh tokens that rest on each cluster.
	vaults map[string]*token.Memory
	all    []*person
	// helped is when they looked after their services last.
	helped time.Time

	mu sync.Mutex
	// tokens say whose an access token is.
	tokens map[string]int
}

// person is one of them. It is for one goroutine.
type person struct {
	number int
	token  string
	// expires is the end of the token; left is when the person left the group, zero in it.
	expires, left time.Time
	// refresh are the newest refresh tokens of the services.
	refresh [personServices]string
	events  int
}

// invite makes the people of a plan, before there is a world.
func (p *player) invite() {
	if p.plan.Shape.People == 0 {
		return
	}
	iss := issuer.Serve(p.t, p.net.Host(hostIssuer).MustListen(p.t), "")
	iss.Grant(issuer.Grants{Rotate: p.plan.Seed%2 == 0, Lifetime: issued})
	p.people = &people{issuer: iss, vaults: map[string]*token.Memory{}, tokens: map[string]int{}}
	for i := range p.plan.Shape.All() {
		p.people.vaults[clusterID(i)] = &token.Memory{}
	}
	for i := range p.plan.Shape.People {
		one := &person{number: i}
		p.people.all = append(p.people.all, one)
		p.join(one)
		p.renew(one, tokenLife)
	}
}

// knowIssuer lets a world's control planes, OSCARs and syncers know the issuer.
func (p *player) knowIssuer(o *world.Options) {
	if p.people != nil {
		o.Issuer, o.IssuerAway = p.people.issuer, true
	}
}

// exchanges lets a syncer hold refresh tokens, and exchange them.
func (p *player) exchanges(c *syncer.Config) {
	if p.people != nil {
		c.Vault, c.Issuers = p.people.vaults[c.ClusterID], []token.Issuer{{URL: p.people.issuer.URL, ClientID: "oscarfed"}}
	}
}

func (p *player) join(one *person) {
	p.people.issuer.User(personSubject(one.number), map[string]any{"group_membership": []string{world.Group}, "name": "Person of a History"})
	one.left = time.Time{}
}

func (p *player) leave(one *person) {
	p.people.issuer.User(personSubject(one.number), map[string]any{"group_membership": []string{"chess"}, "name": "Person of a History"})
	if one.left.IsZero() {
		one.left = time.Now()
	}
}

// renew gives a person another access token.
func (p *player) renew(one *person, life time.Duration) {
	one.expires = time.Now().Add(life)
	one.token = p.people.issuer.Token(personSubject(one.number), map[string]any{"exp": one.expires.Unix()})
	p.canaries.add(one.token)
	p.people.mu.Lock()
	defer p.people.mu.Unlock()
	p.people.tokens[one.token] = one.number
}

// freshRefresh gives a person another refresh token for a service.
func (p *player) freshRefresh(one *person, service int) string {
	one.refresh[service] = p.people.issuer.RefreshToken(personSubject(one.number))
	p.canaries.add(one.refresh[service])
	return one.refresh[service]
}

// api is how a person reaches one of the control planes.
func (p *player) api(one *person) *client.Client {
	return p.clientAt(one, p.planes[rand.IntN(len(p.planes))])
}

// clientAt is how a person reaches a control plane.
func (p *player) clientAt(one *person, pl *plane) *client.Client {
	return world.Must(client.New(client.Config{Endpoint: pl.url, Token: one.token, Transport: p.w.HTTP().Transport}))(p.t)
}

// deed makes one step of a person.
func (p *player) deed(ctx context.Context, d Deed) {
	ctx, cancel := context.WithTimeout(ctx, freeWait)
	defer cancel()
	one := p.people.all[d.Who]
	switch d.Op {
	case deedToken:
		p.renew(one, d.For)
		return
	case deedLeave:
		p.leave(one)
		return
	case deedJoin:
		p.join(one)
		return
	case deedRevoke:
		if one.refresh[d.Service] != "" {
			p.people.issuer.RevokeNow(one.refresh[d.Service])
		}
		return
	}
	api, began := p.api(one), time.Now()
	for _, err := range p.ask(ctx, api, one, d) {
		p.users.look(d.String(), err)
		p.letIn(one, d, began, err)
		if d.Op == deedMeddle {
			p.refused(d, err)
		}
	}
}

// ask asks for what a deed is, and gives what came of each request.
func (p *player) ask(ctx context.Context, api *client.Client, one *person, d Deed) []error {
	name, home := personService(d.Whose, d.Service), p.users.homeOf(d.Whose, d.Service)
	var err error
	switch d.Op {
	case deedCreate:
		_, err = api.CreateService(ctx, p.users.definitionOf(d, p.freshRefresh(one, d.Service)), client.CreateOptions{Wait: freeWait / 2})
	case deedChange:
		_, err = api.ChangeService(ctx, p.users.definitionOf(d, ""), client.ChangeOptions{Async: true})
	case deedDelete:
		_, err = api.DeleteService(ctx, name, client.DeleteOptions{ClusterID: home})
	case deedRefresh:
		_, err = api.SetRefreshToken(ctx, name, p.freshRefresh(one, d.Service), client.RefreshTokenOptions{ClusterID: home})
	case deedSubmit:
		one.events++
		number := (1+one.number)*eventsOf + one.events
		var sent *client.SubmittedJob
		if sent, err = api.SubmitJob(ctx, name, []byte(event(number)), client.JobOptions{IdempotencyKey: event(number), ClusterID: home}); err == nil {
			p.users.accepted(number, sent.ID)
		}
	case deedLook:
		return p.lookAround(ctx, api)
	case deedMeddle:
		return p.meddle(ctx, api, d)
	}
	return []error{err}
}

// lookAround reads all that a user may read. What is shown of others is looked for in the answers.
func (p *player) lookAround(ctx context.Context, api *client.Client) []error {
	_, services := api.Services(ctx)
	_, federations := api.Federations(ctx)
	_, jobs := api.Jobs(ctx, client.JobQuery{Counts: true})
	_, deleted := api.Deleted(ctx, "")
	_, differences := api.Differences(ctx)
	_, clusters := api.Clusters(ctx)
	_, status := api.Status(ctx)
	return []error{services, federations, jobs, deleted, differences, clusters, status}
}

// meddle tries to change, and to see, what is another's.
func (p *player) meddle(ctx context.Context, api *client.Client, d Deed) []error {
	name, home := personService(d.Whose, d.Service), p.users.homeOf(d.Whose, d.Service)
	opts := client.ChangeOptions{Async: true, ClusterID: home}
	_, changed := api.ChangeService(ctx, p.users.definitionOf(Deed{Who: d.Whose, Service: d.Service, Topology: "none"}, ""), opts)
	_, deleted := api.DeleteService(ctx, name, client.DeleteOptions{ClusterID: home})
	_, added := api.AddReplicas(ctx, name, p.users.members(name, home, ^uint8(0)), opts)
	_, paused := api.Pause(ctx, name, home, true)
	_, rotated := api.RotateToken(ctx, name, home)
	_, rolledBack := api.Rollback(ctx, name, 1, opts)
	_, given := api.SetRefreshToken(ctx, name, "refresh-token-of-a-meddler", client.RefreshTokenOptions{ClusterID: home})
	_, taken := api.DeleteRefreshToken(ctx, name, home)
	out := []error{changed, deleted, added, paused, rotated, rolledBack, given, taken}
	p.users.mu.Lock()
	id := p.users.jobs[(1+d.Whose)*eventsOf+1]
	p.users.mu.Unlock()
	if id != "" {
		if _, err := api.CancelJob(ctx, id); err == nil {
			p.users.strangef("%s: and a job was cancelled", d)
		}
	}
	if private(d.Service) {
		_, read := api.Service(ctx, name, home)
		_, replicas := api.Replicas(ctx, name, home)
		_, history := api.History(ctx, name, home)
		_, submitted := api.SubmitJob(ctx, name, []byte("an event of a meddler"), client.JobOptions{ClusterID: home})
		out = append(out, read, replicas, history, submitted)
	}
	return out
}

// refused demands that somebody who meddles is told that there is no such thing, or that it is not
// his; or nothing, when he is not let in or there is no answer.
func (p *player) refused(d Deed, err error) {
	var e *client.Error
	switch {
	case err == nil:
	case !errors.As(err, &e):
		return
	case slices.Contains([]string{v1.CodeInvalid, v1.CodeNotFound, v1.CodeUnauthenticated, v1.CodeUnavailable, v1.CodeUnknownOutcome}, e.Code()):
		return
	case e.Code() == v1.CodeForbidden && (!private(d.Service) || !p.people.all[d.Who].left.IsZero()):
		return
	}
	p.users.strangef("%s: %v", d, err)
}

// letIn demands that nobody is let in with a token that has expired, or without the group.
func (p *player) letIn(one *person, d Deed, began time.Time, err error) {
	if err != nil {
		return
	}
	if began.Sub(one.expires) > expiryLag {
		p.users.strangef("%s: let in, though the token expired at %v", d, one.expires)
	}
	holds := groupsHold
	if p.plan.issuerFails() {
		holds = groupsBelieved
	}
	if !one.left.IsZero() && began.Sub(one.left) > holds {
		p.users.strangef("%s: let in, out of the group since %v", d, one.left)
	}
}

// watch looks, in what a person is answered, for what is another's.
func (p *player) watch(next http.Handler) http.Handler {
	if p.people == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.people.mu.Lock()
		who, known := p.people.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		p.people.mu.Unlock()
		if !known {
			next.ServeHTTP(w, r)
			return
		}
		copied := &answer{ResponseWriter: w}
		next.ServeHTTP(copied, r)
		for other := range p.people.all {
			if other == who {
				continue
			}
			words := []string{privateOf(other)}
			if name := personService(other, 0); r.Method == http.MethodGet && !strings.Contains(r.URL.String(), name) {
				words = append(words, name) // the asker did not say it
			}
			for _, word := range words {
				shown, err := invariants.Readable(copied.body.Bytes(), []string{word})
				if err != nil || len(shown) > 0 {
					p.users.strangef("person %d is shown %q by %s %s: %v %v", who, word, r.Method, r.URL, shown, err)
				}
			}
		}
	})
}

// outsiders demands, when nothing is broken any more, that nobody is let in with a token that has
// expired, or after having left the group.
func (p *player) outsiders() {
	if p.people == nil {
		return
	}
	for _, one := range p.people.all {
		p.join(one)
		p.renew(one, expiryLag)
	}
	p.knock("the token has expired soon after")
	<-time.After(3 * expiryLag)
	p.knock("the token has expired")
	for _, one := range p.people.all {
		p.renew(one, tokenLife)
	}
	p.knock("the group is left soon after")
	for _, one := range p.people.all {
		p.leave(one)
	}
	<-time.After(groupsHold + time.Minute)
	p.knock("the group is left")
}

// knock lets everybody ask every control plane, and judges who was let in. The issuer is well, and has
// been asked since.
func (p *player) knock(when string) {
	for _, one := range p.people.all {
		for _, pl := range p.planes {
			began := time.Now()
			_, err := p.clientAt(one, pl).Services(p.t.Context())
			switch late := began.Sub(one.expires) > expiryLag; {
			case err != nil:
			case late, !one.left.IsZero() && began.Sub(one.left) > groupsHold:
				p.users.strangef("person %d is let in at %s: %s", one.number, pl.name, when)
			}
		}
	}
}

// lookAfter does what people do whose services wait for them: everybody is in the group again and
// sends a request with a fresh token.
func (p *player) lookAfter(ctx context.Context) {
	if p.people == nil || time.Since(p.people.helped) < ownersPause {
		return
	}
	p.people.helped = time.Now()
	for _, one := range p.people.all {
		p.join(one)
		p.renew(one, tokenLife)
		api := p.api(one)
		for service := range personServices {
			name, home := personService(one.number, service), p.users.homeOf(one.number, service)
			s, err := api.Service(ctx, name, home)
			if err != nil {
				continue
			}
			s.ClusterID = home
			_, err = api.ChangeService(ctx, s, client.ChangeOptions{Async: true})
			p.users.look("look after "+name, err)
			_, err = api.SetRefreshToken(ctx, name, p.freshRefresh(one, service), client.RefreshTokenOptions{ClusterID: home})
			p.users.look("look after "+name, err)
		}
	}
}

// owned demands that every service of a person is his, on every cluster.
func (p *player) owned() {
	if p.people == nil {
		return
	}
	p.t.Helper()
	for i := range p.plan.Shape.All() {
		sim := p.w.Cluster(clusterID(i)).Sim
		for _, name := range sim.Services() {
			view, _ := sim.Service(name)
			for _, one := range p.people.all {
				if strings.HasPrefix(name, fmt.Sprintf("person%d-", one.number)) && view.Owner != personSubject(one.number) {
					p.t.Errorf("%s/%s is owned by %q", clusterID(i), name, view.Owner)
				}
			}
		}
	}
}
