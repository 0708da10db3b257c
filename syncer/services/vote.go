package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
)

// nodesAge is how old the sizes of nodes may be: they rarely change, and many votes share one read.
const nodesAge = 60 * time.Second

// refusal is a no and its cause.
type refusal struct {
	reason  record.Reason
	message string
}

// vote checks whether the service can be created, and answers the prepare. What keeps
// us from checking is no vote, unless it lasts: the check is made again.
func (s *Services) vote(ctx context.Context, v *observation) error {
	no, err := s.check(ctx, v)
	if err != nil {
		return s.blocked(ctx, v, err)
	}
	return s.cast(ctx, v, no)
}

// cast writes the answer; nil is a yes.
func (s *Services) cast(ctx context.Context, v *observation, no *refusal) error {
	s.session.FailPoints.Hit(failBeforeVote)
	vote := &record.Vote{Answer: record.VoteYes, Revision: v.revision}
	f := finding{phase: record.PhasePrepared, vote: vote}
	if no != nil {
		vote.Answer = record.VoteNo
		f.phase, f.reason, f.message = record.PhaseRefused, no.reason, no.message
	} else {
		delay := s.process.forecast.promise(v.name, v.revision, s.outstanding(s.session.Mirror.Snapshot()), s.session.Now())
		vote.DelayS = int64(math.Round(delay.Seconds()))
		if s.tooLong(v, delay) {
			no := ownertoken.NeedsToken(fmt.Sprintf("the owner's access token expires at %s, and the writes before this one take %s",
				v.as.Expires.UTC().Format(time.RFC3339), delay.Round(time.Second)))
			vote.Answer, vote.DelayS = record.VoteNo, 0
			f.phase, f.reason, f.message = record.PhaseRefused, no.Reason, no.Message
		}
	}
	if err := s.report(ctx, v, f); err != nil {
		return err
	}
	s.process.metrics.votes.WithLabelValues(vote.Answer, string(f.reason)).Inc()
	s.session.FailPoints.Hit(failAfterVote)
	return nil
}

// check returns nil for a yes.
func (s *Services) check(ctx context.Context, v *observation) (*refusal, error) {
	if no, err := s.checkVersion(ctx, v); no != nil || err != nil {
		return no, err
	}
	// Before the rest: a user that is not let in does not learn what stands there.
	if no, err := s.checkUser(ctx, v); no != nil || err != nil {
		return no, err
	}
	if no, err := s.checkName(ctx, v); no != nil || err != nil {
		return no, err
	}
	var err error
	if v.buckets, _, err = s.deps.Answers.Buckets.Get(ctx, v.asOf); err != nil {
		return nil, err
	}
	if bucket, reason, err := s.foreignBucket(ctx, v, nil); bucket != "" || err != nil {
		return &refusal{reason, v.foreignBucketMessage(bucket, reason)}, err
	}
	if v.service == nil {
		if _, no, err := s.chooseVolume(ctx, v); no != nil || err != nil {
			return no, err
		}
	}
	return s.checkRoom(ctx, v)
}

func (s *Services) checkVersion(ctx context.Context, v *observation) (*refusal, error) {
	info, asked, err := s.deps.Answers.Infos.Get(ctx, s.session.Now().Add(-answers.InfoAge))
	if err == nil && answers.Unsupported(info.Version) && asked.Before(v.asOf) {
		// A no is said of what OSCAR says now.
		info, _, err = s.deps.Answers.Infos.Get(ctx, v.asOf)
	}
	if err != nil {
		return nil, err
	}
	if answers.Unsupported(info.Version) {
		return &refusal{record.ReasonUnsupportedVersion, fmt.Sprintf(
			"the cluster runs OSCAR %q; v4.1.0 or later is needed: upgrade it, or leave the cluster out", info.Version)}, nil
	}
	return nil, nil
}

func refusedCredential() *refusal {
	return &refusal{record.ReasonCredentialRefused, answers.CredentialRefused}
}

// checkName demands that the name is free, or ours already.
func (s *Services) checkName(ctx context.Context, v *observation) (*refusal, error) {
	if v.service == nil && s.process.gets.Allow() {
		// A service whose ConfigMap lost its label is not listed. Reads are too
		// scarce for each of many votes at once: the creation reads again.
		switch shown, err := s.deps.OSCAR.Get(ctx, v.name); {
		case err == nil:
			v.service = shown
			v.local = localOf(shown, v.desired)
		case !manager.NotFound(err):
			return nil, err
		}
	}
	if v.service != nil && v.local.whose != ours {
		return &refusal{record.ReasonNameTaken, fmt.Sprintf(
			"a service named %q that is not of the federation stands on the cluster; choose another name, or delete it there", v.name)}, nil
	}
	if v.service == nil && !v.desired.SecretLeft {
		left, err := s.deps.Kube.SecretLeft(ctx, v.desired.Owner, v.name)
		switch {
		case errors.Is(err, kube.ErrAbsent):
		case errors.Is(err, kube.ErrDenied):
			// No opinion: every vote would be lost until an operator gives the right.
			s.session.Log.Error("Kubernetes does not say whether a Secret is left", "service", v.name, "error", err)
		case err != nil:
			return nil, err
		case left:
			return &refusal{record.ReasonNameTaken, fmt.Sprintf(
				"a Secret named %q was left on the cluster, so OSCAR refuses a service of this name; delete the Secret, or choose another name", v.name)}, nil
		}
	}
	return nil, nil
}

// checkRoom demands that one pod fits what one node can give at all. What runs
// there now does not matter: services wait for jobs, and jobs for room.
func (s *Services) checkRoom(ctx context.Context, v *observation) (*refusal, error) {
	nodes, asked, err := s.sizesOfNodes(ctx, s.session.Now().Add(-nodesAge))
	no, err := v.room(nodes, err)
	if no == nil || !asked.Before(v.asOf) {
		return no, err
	}
	// A no is said of the nodes that there are now.
	nodes, _, err = s.sizesOfNodes(ctx, v.asOf)
	return v.room(nodes, err)
}

// room is checkRoom with the nodes that are known, or why they are not.
func (v *observation) room(nodes []kube.Node, unknown error) (*refusal, error) {
	if unknown != nil {
		return nil, unknown
	}
	pod, err := v.def.Service.Resources()
	if err != nil {
		return &refusal{record.ReasonInvalidService, err.Error()}, nil //nolint:nilerr // it is the refusal
	}
	var widest kube.Node
	for _, n := range nodes {
		gives := n.Allocatable
		if gives.GPU >= pod.GPUs && gives.MilliCPU >= pod.MilliCPU && gives.MemoryBytes >= pod.MemoryBytes {
			return nil, nil
		}
		if most := widest.Allocatable; gives.MilliCPU > most.MilliCPU || gives.MilliCPU == most.MilliCPU && gives.MemoryBytes > most.MemoryBytes {
			widest = n
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	want := fmt.Sprintf("cpu %s and memory %s", cmp.Or(v.def.Service.CPU, oscar.DefaultCPU), cmp.Or(v.def.Service.Memory, oscar.DefaultMemory))
	if pod.GPUs > 0 {
		want += " and a GPU"
	}
	return &refusal{record.ReasonDoesNotFit, fmt.Sprintf(
		"no node of the cluster can give %s; the largest, %q, has cpu %dm and memory %dMi: ask for less, or leave the cluster out",
		want, widest.Name, widest.Allocatable.MilliCPU, widest.Allocatable.MemoryBytes>>20)}, nil
}

// sizesOfNodes are the nodes as OSCAR tells them or, where it cannot since there is no
// metrics server, as Kubernetes does; none when neither knows.
func (s *Services) sizesOfNodes(ctx context.Context, notBefore time.Time) ([]kube.Node, time.Time, error) {
	told, asked, err := s.deps.Answers.Nodes.Get(ctx, notBefore)
	switch {
	case manager.StatusOf(err) >= 500 || err == nil && len(told) == 0:
		nodes, asked, err := s.deps.Answers.Sizes.Get(ctx, notBefore)
		if errors.Is(err, kube.ErrAbsent) || errors.Is(err, kube.ErrDenied) {
			return nil, asked, nil
		}
		return nodes, asked, err
	case err != nil:
		return nil, asked, err
	}
	nodes := make([]kube.Node, 0, len(told))
	for _, n := range told {
		nodes = append(nodes, kube.Node{Name: n.Name, Allocatable: kube.Resources{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryBytes, GPU: n.GPU}})
	}
	return nodes, asked, nil
}

// checkUser asks OSCAR, with the owner's own token, whether it lets him in.
func (s *Services) checkUser(ctx context.Context, v *observation) (*refusal, error) {
	switch {
	case !v.token.needed:
		return nil, nil
	case v.token.pending:
		return nil, fmt.Errorf("the owner's access token is on its way: %s", v.token.message)
	case v.token.reason != "":
		return &refusal{v.token.reason, v.token.message}, nil
	}
	err := s.deps.Answers.Admissions.Check(ctx, v.as.Value)
	if manager.NotAdmitted(err) {
		return notAllowed(s.session.ID), nil
	}
	return nil, err
}

func notAllowed(cluster string) *refusal {
	return &refusal{record.ReasonNotAllowed, fmt.Sprintf(
		"the OSCAR of cluster %q does not accept the owner's access token: its operator decides which issuers and groups it lets in; leave the cluster out, or ask him", cluster)}
}
