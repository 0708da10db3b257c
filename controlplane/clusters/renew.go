package clusters

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// noteSlack is how much later, or earlier, than the registration says a certificate may end without
// being noted, so that a syncer that renews often does not write often.
const noteSlack = time.Hour

// Renew gives a cluster that has joined another certificate for the same key, also
// 90 days after the last one has ended. A cluster that was removed gets one as long
// as there is something that it has to do, and is told so.
func (c *Controller) Renew(ctx context.Context, in v1.JoinRenewal) (*v1.Enrolment, error) {
	if c.cfg.Access == nil {
		return nil, errNoAccess()
	}
	csr, violations := readRequest(in.ClusterID, in.CSR, in.KubeSystemUID)
	if in.ClusterUID == "" || !plainWord(in.ClusterUID) {
		violations = append(violations, oscar.Violation{Path: "cluster_uid", Rule: oscar.RuleType, Message: "it is the uid that the answer to the join told"})
	}
	if len(violations) > 0 {
		return nil, fault.Invalid(violations...)
	}
	if !c.meets(csr.Name) {
		return nil, &fault.Error{Code: fault.CodeConflict, Message: "the common name of the certificate request is no challenge of the last 5 minutes; ask for one and sign that"}
	}
	who := decide.Applicant{Cluster: in.ClusterID, UID: in.ClusterUID, Key: csr.Fingerprint, KubeSystem: in.KubeSystemUID}
	out, err := c.writeRenewal(ctx, who, csr)
	return out, fault.Crossing(err)
}

func (c *Controller) writeRenewal(ctx context.Context, who decide.Applicant, csr *pki.Request) (*v1.Enrolment, error) {
	key, desired := record.ClusterKey(who.Cluster), record.DesiredClusterKey(who.Cluster)
	var out *v1.Enrolment
	_, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired},
		Build: func(v store.View, tx *store.Txn) error {
			reg, left, err := registration(v, who.Cluster)
			if err != nil {
				return err
			}
			var joined *record.Joined
			var removed *record.Time
			switch {
			case reg != nil && reg.UID == who.UID:
				joined = reg.Joined
			case reg == nil && left != nil && left.UID == who.UID && left.RemovedAt != nil:
				joined, removed = left.Joined, left.RemovedAt
			}
			next, changed, err := decide.Renewal(joined, who, c.cfg.Now())
			if err != nil {
				return err
			}
			if out == nil {
				if out, err = c.enrol(csr, who.Cluster, who.UID); err != nil {
					return err
				}
			}
			out.RemovedAt = (*v1.Time)(removed)
			if removed != nil || !changed && out.ExpiresAt.Sub(next.ValidUntil.Time).Abs() < noteSlack {
				return nil
			}
			next.ValidUntil = record.At(out.ExpiresAt.Time)
			reg.Joined = next
			tx.Expect(key)
			tx.Put(key, reg)
			return nil
		},
	})
	return out, err
}
