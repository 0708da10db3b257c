package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store/record"
)

// OSCAR's own paths of buckets, volumes, quotas and usage. A list is the sum over the caller's
// clusters; anything else goes to one cluster. OSCAR's clients name none: what changes or deletes an
// entry of a list goes to the one cluster that has it. OSCAR is asked with the caller's own access
// token, which goes to these clusters and no others; for the administrator with the cluster's
// credentials, where its syncer allows it. Nothing of the answers is kept.

// ForwardRequest is a request to one of these paths.
type ForwardRequest struct {
	Route v1.ForwardRoute
	// Name fills the path, where it has one.
	Name string
	// ClusterID names a cluster; empty for the one that clusterFor finds.
	ClusterID string
	Query     url.Values
	Body      []byte
}

// ForwardAnswer is what one OSCAR answers.
type ForwardAnswer struct {
	ClusterID string
	Status    int
	MediaType string
	Body      []byte
}

// forwardTimeout is how long one OSCAR may take for what is not a list: what a syncer gives it, and
// a little more.
const forwardTimeout = 65 * time.Second

// Forward asks one cluster. What the default one does not have, by its list as well, and a request
// that names none is to read, may be on another of the caller's: then that one is asked.
func (c *Controller) Forward(ctx context.Context, caller identity.Caller, in ForwardRequest) (*ForwardAnswer, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	if in.Route.Named() && !v1.ForwardName(in.Name) {
		return nil, fault.NotFound(fmt.Sprintf("there is no %.100q", in.Name))
	}
	cluster := in.ClusterID
	if cluster == "" {
		var err error
		if cluster, err = c.clusterFor(ctx, caller, in); err != nil {
			return nil, err
		}
	}
	out, err := c.forwardTo(ctx, caller, in, cluster)
	if in.ClusterID != "" || !lacks(out, err) {
		return out, err
	}
	list, what := reads(in.Route)
	if what == "" {
		return out, err
	}
	others, unknown, lost := c.listedOn(ctx, caller, list, in.Name)
	switch {
	case lost != nil, len(others) == 0, slices.Contains(others, cluster):
		return out, err
	case slices.ContainsFunc(unknown, func(r refusal) bool { return r.cluster == cluster }):
		return out, err // it may have it: that of another cluster may not be the one that is meant
	case len(others) > 1:
		return nil, onSeveral(what, in.Name, others)
	}
	return c.forwardTo(ctx, caller, in, others[0])
}

// lacks says that a cluster does not have what was asked for, or not for the caller.
func lacks(out *ForwardAnswer, err error) bool {
	if err != nil {
		e, ok := errors.AsType[*fault.Error](err)
		return ok && (e.Code == fault.CodeForbidden || e.Code == fault.CodeNotFound || e.Code == fault.CodeFailedPrecondition)
	}
	switch out.Status {
	case http.StatusForbidden, http.StatusNotFound:
		return true
	case http.StatusInternalServerError: // OSCAR's word for a bucket that is not there
		return bytes.Contains(out.Body, []byte("NoSuchBucket"))
	}
	return false
}

// reads is the list that has the bucket or volume of a request which reads it, or asks for a link to
// an object of it.
func reads(route v1.ForwardRoute) (list v1.ForwardRoute, what string) {
	buckets, volumes := v1.BucketsRoute(), v1.VolumesRoute()
	switch {
	case route.Method == http.MethodGet && route.Path == buckets.Path+"/{name}", route.Path == buckets.Path+"/{name}/presign":
		return buckets, "bucket"
	case route.Method == http.MethodGet && route.Path == volumes.Path+"/{name}":
		return volumes, "volume"
	}
	return v1.ForwardRoute{}, ""
}

func onSeveral(what, name string, clusters []string) error {
	return &fault.Error{
		Code: fault.CodeConflict, Candidates: clusters,
		Message: fmt.Sprintf("%s %.100q is on several clusters; say which with ?cluster_id=", what, name),
	}
}

// forwardTo asks a cluster; empty is the default one where there is none.
func (c *Controller) forwardTo(ctx context.Context, caller identity.Caller, in ForwardRequest, cluster string) (*ForwardAnswer, error) {
	if cluster == "" {
		return nil, &fault.Error{Code: fault.CodeFailedPrecondition, Message: "there is no default cluster; name one with ?cluster_id="}
	}
	var to target
	var err error
	c.state.Read(func(v *view.View) { to, err = forwardTarget(v, caller, cluster) })
	if err != nil {
		return nil, err
	}
	to.Tenant, to.Wait = share.Tenant{Account: c.word(caller.Subject)}, forwardTimeout
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	resp, err := c.relay.Forward(ctx, to.Replica, forwardFor(caller, in))
	if err != nil {
		return nil, forwardError(caller, in.Route, cluster, err)
	}
	defer resp.Body.Close()
	return readForwarded(in.Route, cluster, resp)
}

// clusterFor is the cluster of a request that names none: that of the service whose usage is asked
// for, that of the bucket or volume to change or delete, and otherwise the default one.
func (c *Controller) clusterFor(ctx context.Context, caller identity.Caller, in ForwardRequest) (string, error) {
	if in.Route.Path == v1.ServiceMetricsPath {
		if p, err := c.state.Find(caller, in.Name, ""); err == nil {
			return p.At().ClusterID, nil
		}
	}
	if list, what, name := changes(in); name != "" {
		clusters, err := c.clustersWith(ctx, caller, list, what, name)
		switch {
		case err != nil:
			return "", err
		case len(clusters) > 1:
			return "", onSeveral(what, name, clusters)
		case len(clusters) == 1:
			return clusters[0], nil
		}
	}
	return c.cfg.DefaultCluster, nil
}

// entry is what a list of buckets or of volumes has of one of them.
type entry struct {
	Bucket  string `json:"bucket_name"`
	Volume  string `json:"name"`
	cluster string
}

// changes names the bucket or volume that a request changes or deletes, and the list that has it; the
// name is empty for a request that does neither.
func changes(in ForwardRequest) (list v1.ForwardRoute, what, name string) {
	switch buckets, volumes := v1.BucketsRoute(), v1.VolumesRoute(); {
	case in.Route.Method == http.MethodDelete && in.Route.Path == buckets.Path+"/{name}":
		return buckets, "bucket", in.Name
	case in.Route.Method == http.MethodDelete && in.Route.Path == volumes.Path+"/{name}":
		return volumes, "volume", in.Name
	case in.Route.Method == http.MethodPut && in.Route.Path == buckets.Path:
		var bucket struct {
			Name string `json:"bucket_name"`
		}
		// As OSCAR reads it, which passes over what follows. Of one that it cannot read it changes nothing.
		if json.NewDecoder(bytes.NewReader(in.Body)).Decode(&bucket) == nil {
			return buckets, "bucket", bucket.Name
		}
	}
	return v1.ForwardRoute{}, "", ""
}

// clustersWith are those of the caller's clusters whose list has a name. When one has not answered, the
// name of another may not be the one that is meant, and its data would be lost: that is refused. A
// cluster that is closed to the caller does not count: no row of it is shown to him.
func (c *Controller) clustersWith(ctx context.Context, caller identity.Caller, list v1.ForwardRoute, what, name string) ([]string, error) {
	out, unknown, err := c.listedOn(ctx, caller, list, name)
	if err == nil && len(unknown) > 0 && len(out) < 2 {
		var why []string
		for _, r := range unknown {
			why = append(why, missingBecause(r.cluster, r.err))
		}
		return nil, &fault.Error{
			Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second,
			Message: fmt.Sprintf("nothing was changed: it is not known whether %s %.100q is on a cluster that has not answered; say which is meant with ?cluster_id=: %s", what, name, strings.Join(why, "; ")),
		}
	}
	return out, err
}

// listedOn are those of the caller's clusters whose list has a name, and the others of which that is not
// known. It asks nobody where only the default one can be meant.
func (c *Controller) listedOn(ctx context.Context, caller identity.Caller, list v1.ForwardRoute, name string) (out []string, unknown []refusal, err error) {
	targets, _, err := c.clustersOf(caller, "")
	switch {
	case err != nil:
		return nil, nil, err
	case len(targets) == 0, len(targets) == 1 && targets[0].Cluster == c.cfg.DefaultCluster:
		return nil, nil, nil // no other can be meant
	}
	entries, refusals := entriesOn[entry](ctx, c, caller, targets, list, func(e *entry, id string) { e.cluster = id })
	for _, e := range entries {
		if cmp.Or(e.Bucket, e.Volume) == name {
			out = append(out, e.cluster)
		}
	}
	for _, r := range refusals {
		if !r.closed() {
			unknown = append(unknown, r)
		}
	}
	return slices.Compact(out), unknown, nil
}

func forwardFor(caller identity.Caller, in ForwardRequest) relay.Forwarded {
	token, _ := caller.Token()
	return relay.Forwarded{Route: in.Route, Name: in.Name, Query: in.Query, Body: in.Body, UserToken: token}
}

// forwardTarget is a cluster that may be asked for a caller: it is registered and open to him.
func forwardTarget(v *view.View, caller identity.Caller, cluster string) (target, error) {
	if token, _ := caller.Token(); token == "" && !caller.Administrator {
		return target{}, &fault.Error{Code: fault.CodeForbidden, Message: "this is for users, by their access tokens"}
	}
	reg := v.Clusters.Get(cluster).Rec
	if reg == nil || reg.Revoked != nil {
		return target{}, fault.NotFound(fmt.Sprintf("there is no cluster %.100q", cluster))
	}
	if !mayPlace(caller, reg) {
		return target{}, forOthers(cluster)
	}
	return target{Replica: relay.Replica{Cluster: cluster, ClusterUID: reg.UID, UID: reg.UID}}, nil
}

// mayPlace says whether the groups of a cluster let a caller in.
func mayPlace(caller identity.Caller, reg *record.Cluster) bool {
	return len(reg.AllowedGroups) == 0 || caller.InGroup(reg.AllowedGroups...)
}

func forOthers(cluster string) *fault.Error {
	return &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("cluster %s is for the members of other groups", cluster)}
}

// clustersWithReplicas are those with a replica of the caller's.
func clustersWithReplicas(v *view.View, caller identity.Caller) map[string]bool {
	ids := map[string]bool{}
	for _, f := range v.Federations.All() {
		if f.Rec.Owner != caller.Subject || f.Rec.Phase.Result() {
			continue
		}
		for _, m := range f.Rec.Members {
			if m.Replica() {
				ids[m.ClusterID] = true
			}
		}
	}
	return ids
}

// forwardError is what the caller is told when a cluster has not answered.
func forwardError(caller identity.Caller, route v1.ForwardRoute, cluster string, err error) error {
	e, ok := errors.AsType[*relay.Error](err)
	if !ok {
		return err
	}
	out := &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Message: fmt.Sprintf("cluster %s: %s", cluster, e.Text), Cause: err}
	switch {
	case e.Word == v1.RelayNotAllowed:
		out.Code, out.RetryAfter = fault.CodeNotServed, 0
		out.Message += "; its syncer may be of an earlier version: ask the OSCAR of the cluster itself"
		if caller.Administrator {
			out.Code = fault.CodeForbidden
			out.Message = fmt.Sprintf("cluster %s: %s; use the access token of a user, or ask the OSCAR of the cluster itself", cluster, e.Text)
		}
	case e.Word == v1.RelayTooLarge:
		out.Code, out.RetryAfter = fault.CodeTooLarge, 0
	case e.Sent && route.Method != http.MethodGet:
		out.Code, out.RetryAfter = fault.CodeUnknownOutcome, 0
		out.Message += "; whether it did what was asked is not known"
	}
	return out
}

// readForwarded reads an answer. A syncer may be anybody's, so it is bounded, and nothing of its head
// but status and media type counts.
func readForwarded(route v1.ForwardRoute, cluster string, resp *http.Response) (*ForwardAnswer, error) {
	broken := func(why string) (*ForwardAnswer, error) {
		code := fault.CodeUnavailable
		if route.Method != http.MethodGet {
			code = fault.CodeUnknownOutcome
		}
		return nil, &fault.Error{Code: code, Message: fmt.Sprintf("cluster %s: %s", cluster, why)}
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("the OSCAR of cluster %s does not let you in", cluster)}
	case resp.StatusCode < http.StatusOK, resp.StatusCode >= 300 && resp.StatusCode < 400, resp.StatusCode > 599:
		return broken(fmt.Sprintf("its OSCAR answers with status %d, which is not passed on", resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, v1.MaxForwardAnswer+1))
	switch {
	case err != nil:
		return broken("its answer broke off")
	case len(body) > v1.MaxForwardAnswer:
		return broken(fmt.Sprintf("its answer is larger than %d bytes", v1.MaxForwardAnswer))
	}
	return &ForwardAnswer{ClusterID: cluster, Status: resp.StatusCode, MediaType: v1.ForwardType(resp.Header.Get("Content-Type")), Body: body}, nil
}

// Buckets lists the buckets of the caller on all his clusters, and says of the clusters that have
// no part in it why.
func (c *Controller) Buckets(ctx context.Context, caller identity.Caller, cluster string) ([]v1.Bucket, []string, error) {
	return sumOf(ctx, c, caller, cluster, v1.BucketsRoute(), func(b *v1.Bucket, id string) { b.ClusterID = id })
}

// Volumes lists the volumes of the caller on all his clusters, as Buckets does.
func (c *Controller) Volumes(ctx context.Context, caller identity.Caller, cluster string) ([]v1.Volume, []string, error) {
	return sumOf(ctx, c, caller, cluster, v1.VolumesRoute(), func(b *v1.Volume, id string) { b.ClusterID = id })
}

// sumOf asks the caller's clusters for a list, and joins what they answer in the order of their names.
func sumOf[T any](ctx context.Context, c *Controller, caller identity.Caller, named string, route v1.ForwardRoute, mark func(*T, string)) ([]T, []string, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, nil, err
	}
	targets, missing, err := c.clustersOf(caller, named)
	if err != nil {
		return nil, nil, err
	}
	out, refusals := entriesOn(ctx, c, caller, targets, route, mark)
	for _, r := range refusals {
		missing = append(missing, missingBecause(r.cluster, r.err))
	}
	if len(targets) > 0 && len(refusals) == len(targets) {
		return nil, nil, noneAnswered(refusals, missing)
	}
	return out, missing, nil
}

// refusal is why a cluster has no part in a list.
type refusal struct {
	cluster string
	err     error
}

// errNoList is the cause when an OSCAR does not have a list, as one without volumes.
var errNoList = errors.New("its OSCAR does not have this")

// closed says that nothing on the list can be the caller's: the OSCAR does not have it, or the
// cluster's syncer lets nothing of him through, and so no deletion either.
func (r refusal) closed() bool {
	e, ok := errors.AsType[*relay.Error](r.err)
	return ok && e.Word == v1.RelayNotAllowed || errors.Is(r.err, errNoList)
}

// entriesOn are the entries of a list on clusters, in the order of their names, and the refusals of
// those that have no part in it.
func entriesOn[T any](ctx context.Context, c *Controller, caller identity.Caller, targets []target, route v1.ForwardRoute, mark func(*T, string)) ([]T, []refusal) {
	request := forwardFor(caller, ForwardRequest{Route: route})
	replies := everywhere(ctx, targets,
		func(ctx context.Context, t target) (*http.Response, error) {
			return wholly(c.relay.Forward(ctx, t.Replica, request))
		},
		func(reply) bool { return false })
	slices.SortFunc(replies, func(a, b reply) int { return strings.Compare(a.Cluster, b.Cluster) })
	out := []T{}
	var refusals []refusal
	for _, r := range replies {
		list, err := entriesOf[T](caller, route, r)
		if err != nil {
			refusals = append(refusals, refusal{r.Cluster, err})
			continue
		}
		for i := range list {
			mark(&list[i], r.Cluster)
		}
		out = append(out, list...)
	}
	return out, refusals
}

// wholly reads the body of an answer while the time of its cluster runs: one that sends it slowly
// holds up no list.
func wholly(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, v1.MaxForwardAnswer+1))
	if err != nil {
		return nil, &relay.Error{Text: "its answer broke off", Sent: true, Err: err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// clustersOf are those that a list is the sum over: each with a replica of the caller's, the default
// one, and the one that is named.
func (c *Controller) clustersOf(caller identity.Caller, named string) (targets []target, missing []string, err error) {
	tenant := share.Tenant{Account: c.word(caller.Subject)}
	c.state.Read(func(v *view.View) {
		ids := clustersWithReplicas(v, caller)
		for _, id := range []string{named, c.cfg.DefaultCluster} {
			if id != "" {
				ids[id] = true
			}
		}
		for id := range ids {
			t, no := forwardTarget(v, caller, id)
			switch {
			case no == nil:
				t.Tenant, t.Wait = tenant, forwardTimeout
				targets = append(targets, t)
			case id == named:
				err = no
			default:
				missing = append(missing, missingBecause(id, no))
			}
		}
	})
	slices.Sort(missing)
	return targets, missing, err
}

// entriesOf is the part of one cluster in a list.
func entriesOf[T any](caller identity.Caller, route v1.ForwardRoute, r reply) ([]T, error) {
	if r.err != nil {
		return nil, forwardError(caller, route, r.Cluster, r.err)
	}
	defer r.resp.Body.Close()
	answer, err := readForwarded(route, r.Cluster, r.resp)
	if err != nil {
		return nil, err
	}
	fail := func(cause error) ([]T, error) {
		return nil, &fault.Error{Code: fault.CodeUnavailable, Message: fmt.Sprintf("cluster %s: %s", r.Cluster, cause), Cause: cause}
	}
	switch answer.Status {
	case http.StatusOK:
	case http.StatusNotFound:
		return fail(errNoList)
	default:
		return fail(fmt.Errorf("its OSCAR answers with status %d", answer.Status))
	}
	var list []T // null when there are none
	if decodeAnswer(answer.Body, maxListValues, &list) != nil {
		return fail(errors.New("its answer is not what OSCAR v4.1 sends"))
	}
	return list, nil
}

// missingBecause is a line of a list's missing clusters.
func missingBecause(cluster string, err error) string {
	why := err.Error()
	if e, ok := errors.AsType[*fault.Error](err); ok {
		why = e.Message
	}
	return cluster + ": " + strings.TrimPrefix(why, "cluster "+cluster+": ")
}

// noneAnswered refuses a list of which no cluster has answered its part: with their code where they
// agree, or else as unavailable.
func noneAnswered(refusals []refusal, missing []string) *fault.Error {
	out := &fault.Error{Code: fault.CodeUnavailable, Message: "no cluster has answered: " + strings.Join(missing, "; ")}
	first, ok := errors.AsType[*fault.Error](refusals[0].err)
	if ok && !slices.ContainsFunc(refusals, func(r refusal) bool {
		e, ok := errors.AsType[*fault.Error](r.err)
		return !ok || e.Code != first.Code
	}) {
		out.Code = first.Code
	}
	if out.Code == fault.CodeUnavailable {
		out.RetryAfter = 5 * time.Second
	}
	return out
}
