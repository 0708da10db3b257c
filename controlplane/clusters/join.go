package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// maxUID bounds the uid of a namespace, a cluster or an OSCAR, in bytes; one has 36.
const maxUID = 64

// Join admits the syncer of a cluster: one transaction uses the token up and writes the
// syncer's identity into the registration. Of several syncers with one token one is
// admitted. The same key gets the same answer again while the token lasts. The answer does not say what is wrong with a token.
func (c *Controller) Join(ctx context.Context, in v1.Join) (*v1.Enrolment, error) {
	if c.cfg.Access == nil {
		return nil, errNoAccess()
	}
	csr, violations := readRequest(in.ClusterID, in.CSR, in.KubeSystemUID)
	if !seal.ValidRecipient(in.Recipient) {
		violations = append(violations, oscar.Violation{Path: "recipient", Rule: oscar.RuleType, Message: "a recipient is the public key of an age identity, age1..."})
	}
	if !plainWord(in.OscarID) {
		violations = append(violations, oscar.Violation{Path: "oscar_id", Rule: oscar.RuleType, Message: "it is the UUID in the name of the bucket that marks an OSCAR"})
	}
	if len(violations) > 0 {
		return nil, fault.Invalid(violations...)
	}
	if !plausibleJoinToken(in.Token) {
		return nil, decide.ErrNoToken()
	}
	who := decide.Applicant{Cluster: in.ClusterID, Key: csr.Fingerprint, KubeSystem: in.KubeSystemUID, Recipient: in.Recipient, Oscar: in.OscarID}
	out, err := c.writeJoin(ctx, record.JoinKey(record.JoinHash(in.Token)), who, csr)
	if err != nil {
		return nil, fault.Crossing(err)
	}
	if err := c.admit(ctx, out.ClusterID, out.ClusterUID); err != nil {
		return nil, err
	}
	c.cfg.Logger.Info("a cluster has joined", "cluster", out.ClusterID, "cluster_uid", out.ClusterUID, "key", who.Key, "ends", out.ExpiresAt.Time)
	return out, nil
}

// otherOscar refuses an OSCAR that another cluster has, as far as this instance knows:
// of two that join at the same moment, MarkSameOscar stops the later one.
func (c *Controller) otherOscar(who decide.Applicant) error {
	first := ""
	c.state.Read(func(v *view.View) { first = v.RegisteredAs(who.Oscar, who.Cluster) })
	if first == "" {
		return nil
	}
	return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("this OSCAR is registered as cluster %q already; two clusters cannot have one OSCAR: "+
		"use that one, or remove it first (oscarfed cluster remove %s). If it is another OSCAR with the same MinIO, start both syncers with --shared-minio", first, first)}
}

// writeJoin consumes the token. Its update needs no marker: a try whose outcome is not
// known is found to be done by the token, which names our key.
func (c *Controller) writeJoin(ctx context.Context, token string, who decide.Applicant, csr *pki.Request) (*v1.Enrolment, error) {
	key := record.ClusterKey(who.Cluster)
	var out *v1.Enrolment
	_, err := c.store.Update(ctx, store.Update{
		Keys: []string{token, key},
		Build: func(v store.View, tx *store.Txn) error {
			kv, _ := v.KV(token)
			join, err := decodeAt[record.Join](v, token)
			if err != nil {
				return err
			}
			reg, err := decodeAt[record.Cluster](v, key)
			if err != nil {
				return err
			}
			next, uses, err := decide.Join(join, reg, who, c.cfg.Now())
			if err == nil {
				err = c.otherOscar(who)
			}
			if err != nil {
				return err
			}
			if out == nil || out.ClusterUID != next.UID {
				if out, err = c.enrol(csr, next.ClusterID, next.UID); err != nil {
					return err
				}
			}
			next.Joined.ValidUntil = record.At(out.ExpiresAt.Time)
			tx.Expect(token)
			tx.Expect(key)
			tx.Put(key, next)
			if uses {
				join.UsedBy = who.Key
				tx.PutUntil(token, join, store.Lease(kv.Lease))
				request.Note(tx, c.cfg.Now(), record.Audit{
					By: join.By, Action: record.ActionJoin, Outcome: record.OutcomeDone, ClusterID: next.ClusterID,
					Detail: "by the join token of " + record.At(join.IssuedAt.Time).UTC().Format(time.RFC3339) + ", with the key " + who.Key,
				})
			}
			return nil
		},
	})
	if errors.Is(err, store.ErrSessionLost) && !errors.Is(err, store.ErrUnknownOutcome) {
		return nil, decide.ErrNoToken() // its lease was over at that moment
	}
	return out, err
}

// admit gives the user of a cluster that has joined its rights. One that was removed,
// or that lost them, at that moment does not keep them.
func (c *Controller) admit(ctx context.Context, cluster, uid string) error {
	if err := c.cfg.Access.Admit(ctx, cluster, uid); err != nil {
		return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Cause: err,
			Message: "the cluster has joined, but etcd's user was not made yet; send the same request again, with the same key, while the token lasts"}
	}
	v, err := c.store.Read(ctx, record.ClusterKey(cluster))
	if err != nil {
		return fault.Crossing(err)
	}
	reg, err := decodeAt[record.Cluster](v, record.ClusterKey(cluster))
	if err != nil {
		return fault.Crossing(err)
	}
	if reg != nil && reg.UID == uid && (decide.Admissible(reg) || reg.Removal != nil) {
		return nil // a cluster that is being removed still has to be told what to do
	}
	if err := c.cfg.Access.Revoke(ctx, cluster, uid); err != nil {
		c.cfg.Logger.Error("etcd's user of a cluster that was removed meanwhile was not taken away", "cluster", cluster, "cluster_uid", uid, "error", err)
	}
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: "the cluster was removed, or lost its rights, while it joined"}
}

// enrol signs a certificate and puts beside it what a syncer needs.
func (c *Controller) enrol(csr *pki.Request, cluster, uid string) (*v1.Enrolment, error) {
	cert, notAfter, err := c.cfg.Access.Sign(csr.Key, cluster, uid)
	if err != nil {
		return nil, err
	}
	ca, endpoints := c.cfg.Access.Trust()
	return &v1.Enrolment{
		ClusterID: cluster, ClusterUID: uid, Certificate: string(cert), ExpiresAt: v1.Time{Time: notAfter},
		EtcdCA: string(ca), EtcdEndpoints: append([]string{}, endpoints...),
	}, nil
}

// readRequest checks what every request of a syncer has.
func readRequest(cluster, csr, kubeSystem string) (*pki.Request, []oscar.Violation) {
	var violations []oscar.Violation
	if !oscar.ValidClusterID(cluster) {
		violations = append(violations, oscar.Violation{Path: "cluster_id", Rule: oscar.RuleName,
			Message: "a cluster id has 1 to 63 letters, digits, dots, dashes and underscores"})
	}
	request, err := pki.ParseRequest([]byte(csr))
	if err != nil {
		violations = append(violations, oscar.Violation{Path: "csr", Rule: oscar.RuleType, Message: err.Error()})
	}
	if !plainWord(kubeSystem) {
		violations = append(violations, oscar.Violation{Path: "kube_system_uid", Rule: oscar.RuleType, Message: "it is the uid of the namespace kube-system"})
	}
	return request, violations
}

// plainWord says whether text has only letters, digits and dashes, and not more than a uid.
func plainWord(text string) bool {
	for _, r := range text {
		if r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return len(text) <= maxUID
}
