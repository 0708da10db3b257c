package federations

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"strconv"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// newLife replaces, in a digest, the uid of a replica that the plan creates: the uid is chosen
// when it is written.
const newLife = "new"

// digest identifies exactly what a request writes, and what it was decided on: the caller, the
// definition with its secrets, the revision of the federation, and for each replica its uid,
// its cluster's uid, what its OSCAR is sent, the storage that it uses and the services that it
// lists. It is an HMAC under a key of the control plane that all instances have: only they can
// make one, and a secret cannot be guessed from it.
type digest struct{ mac hash.Hash }

func (c *Controller) newDigest(caller identity.Caller, action string, uid string, rev int64, s *oscar.Service) digest {
	d := digest{hmac.New(sha256.New, c.planKey)}
	public, patch := oscar.SplitSecrets(s)
	d.add(caller.Subject, action, uid, strconv.FormatInt(rev, 10))
	d.service(public)
	d.add(string(patch))
	return d
}

// add hashes one more row of words. Their lengths are hashed too, so that no two lists of rows
// give the same bytes.
func (d digest) add(words ...string) {
	fmt.Fprintf(d.mac, "%d\n", len(words))
	for _, w := range words {
		fmt.Fprintf(d.mac, "%d:%s", len(w), w)
	}
}

func (d digest) service(s *oscar.Service) { d.add(string(encoded(s))) }

// encoded is a service as it is written to the store.
func encoded(s *oscar.Service) []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // our own types always encode
	}
	return raw
}

func (d digest) sum() string { return hex.EncodeToString(d.mac.Sum(nil)) }

// DigestOfCreate names what the creation of a draft writes.
func (c *Controller) DigestOfCreate(caller identity.Caller, d *Draft) string {
	sum := c.newDigest(caller, v1.PlanCreate, "", 0, d.Service)
	sum.add(d.token.Token)
	for _, r := range d.Rendered {
		c.digestReplica(sum, r, true)
	}
	return sum.sum()
}

// DigestOfChange names what a change writes; one that changes nothing has a digest
// of its own.
func (c *Controller) DigestOfChange(caller identity.Caller, d *ChangeDraft) string {
	action := v1.PlanChange
	if !d.Differs {
		action = v1.PlanNone
	}
	sum := c.newDigest(caller, action, d.Sit.Fed.UID, d.Rev, d.Service)
	for _, r := range d.Rendered {
		c.digestReplica(sum, r, view.MemberOf(d.Sit.Fed.Members, r.At.UID) < 0)
	}
	return sum.sum()
}

func (c *Controller) digestReplica(sum digest, r Rendered, added bool) {
	var cluster string
	c.state.Read(func(v *view.View) {
		if reg, ok := v.Clusters.Lookup(r.At.ClusterID); ok {
			cluster = reg.Rec.UID
		}
	})
	life := r.At.UID
	if added {
		life = newLife
	}
	sum.add(r.At.ClusterID, cluster, r.At.ServiceName, life)
	sum.service(r.planned(added))
	sum.add(string(r.Secrets()))
	sum.add(r.Sees...)
	sum.add(r.Left...)
	if o := r.Origin; o != nil {
		sum.add(o.ClusterID, o.Endpoint, strconv.FormatBool(o.SSLVerify), o.MinioEndpoint, o.MinioRegion, strconv.FormatBool(o.MinioVerify))
	}
}

// planned is the service as a plan shows it: an added replica has no uid yet, and perhaps its
// federation has none either.
func (r Rendered) planned(added bool) *oscar.Service {
	if !added {
		return r.Public
	}
	s := *r.Public
	s.Annotations = maps.Clone(s.Annotations)
	s.Annotations[oscar.AnnotationUID], s.Annotations[oscar.AnnotationFederation] = newLife, newLife
	return &s
}

// Secrets are the user's own secrets, without the service token.
func (r Rendered) Secrets() json.RawMessage { return WithoutToken(r.Patch) }

// WithoutToken is the patch of secrets of a definition, without the token of the service.
func WithoutToken(patch json.RawMessage) json.RawMessage {
	out, err := oscar.MergePatch(patch, []byte(`{"token":null}`))
	if err != nil {
		return patch // our own encoding is always read
	}
	return out
}

// SpecDigest is the fingerprint of a spec's service, as a plan shows it.
func (r Rendered) SpecDigest(added bool) string {
	sum := sha256.Sum256(encoded(r.planned(added)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// asPlanned refuses a request that is bound to a plan and would write anything
// else. digest is only computed for one that is bound.
func asPlanned(plan string, digest func() string) error {
	if plan == "" || hmac.Equal([]byte(plan), []byte(digest())) {
		return nil
	}
	return &fault.Error{Code: fault.CodeConflict, Message: "what would be written now is not what was planned: the definition, the federation " +
		"or a cluster has changed since, or somebody else made the plan; nothing is written, plan again"}
}

// outdated is the error of a request that is bound to a plan: when something was possible at
// planning time and no longer is, that is a conflict.
func outdated(plan string, err error) error {
	e, ok := err.(*fault.Error) //nolint:errorlint // only an answer that is made already, and no cause in it
	if plan == "" || !ok {
		return err
	}
	switch e.Code {
	case fault.CodeInvalid, fault.CodeAlreadyExists, fault.CodeNotFound:
	default:
		return err
	}
	message := e.Message
	if len(e.Violations) > 0 {
		message = e.Violations[0].Path + ": " + e.Violations[0].Message
	}
	return &fault.Error{Code: fault.CodeConflict, Message: "what was planned is not possible any more, and nothing is written: " + message}
}
