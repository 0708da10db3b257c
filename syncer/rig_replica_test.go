package syncer_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// replica is one life of a service that the test desires.
type replica struct {
	name        string
	uid         string
	generation  int64
	token       string
	coordinator bool
	image       string
	buckets     []string // default: one named as the service
	secret      string   // of KEY; empty for none
	left        []string
	leftBy      []string // default: the service itself, if anything is left
	secretLeft  bool
	owner       string
	cpu         string
	drift       string
	extra       map[string]any
	origin      *record.OriginStorage
	volumeStays bool
	desired     record.Desired
	revision    int64
}

func newReplica(name string) *replica {
	return &replica{
		name: name, uid: uuid.Must(uuid.NewV7()).String(), generation: 1,
		token:       hex.EncodeToString([]byte(strings.ReplaceAll(uuid.NewString(), "-", ""))),
		coordinator: true, image: "ghcr.io/grycap/imagemagick", buckets: []string{name},
		secret: "hush-" + uuid.NewString(), owner: oscar.OwnerAdmin, drift: "enforce", cpu: "0.5",
	}
}

// service is the definition as the control plane renders it, without secrets.
func (p *replica) service() map[string]any {
	topology := "none"
	annotations := map[string]string{
		oscar.AnnotationWorker: "true", oscar.AnnotationUID: p.uid,
		oscar.AnnotationGeneration: strconv.FormatInt(p.generation, 10), oscar.AnnotationControlPlane: "cp",
	}
	if !p.coordinator {
		topology = "mesh"
		annotations[oscar.AnnotationOriginCluster] = "oscar-cluster-z"
		annotations[oscar.AnnotationOriginService] = "origin"
	}
	in, out := []any{}, []any{}
	for _, b := range p.buckets {
		in = append(in, map[string]any{"storage_provider": "minio.default", "path": b + "/in"})
		out = append(out, map[string]any{"storage_provider": "minio.default", "path": "/" + b + "/out/"})
	}
	secrets := map[string]any{}
	if p.secret != "" {
		secrets["KEY"] = ""
	}
	s := map[string]any{
		"name": p.name, "cluster_id": clusterID, "image": p.image, "cpu": p.cpu, "memory": "0.5Gi",
		"script": "#!/bin/sh\r\necho hi\n", "annotations": annotations, "input": in, "output": out, "log_level": "debug",
		"federation":  map[string]any{"group_id": "g", "topology": topology, "delegation": "static", "members": []any{}},
		"environment": map[string]any{"variables": map[string]any{"A": "1"}, "secrets": secrets},
		"x_unknown":   map[string]any{"kept": true},
	}
	maps.Copy(s, p.extra)
	return s
}

// stage writes the spec of a replica, once.
func (r *rig) stage(p *replica) (name string) {
	r.t.Helper()
	spec := record.SpecName(p.name, p.uid, p.generation)
	service, err := json.Marshal(p.service())
	if err != nil {
		r.t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"token":%q}`, p.token)
	if p.secret != "" {
		patch = fmt.Sprintf(`{"token":%q,"environment":{"secrets":{"KEY":%q}}}`, p.token, p.secret)
	}
	sealed, err := seal.Seal(seal.Header{Purpose: "spec", Cluster: clusterID, UID: p.uid, Generation: p.generation}, []byte(patch), r.identity.Recipient())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.store.Get(r.t.Context(), record.SpecKey(clusterID, spec)); err != nil {
		by := p.leftBy
		if len(p.left) > 0 {
			by = append(by, p.name)
		}
		r.put(record.SpecKey(clusterID, spec), record.Spec{V: 1, Service: service, Sealed: sealed, Left: p.left, LeftBy: by, Origin: p.origin, VolumeGoes: !p.volumeStays})
	}
	return spec
}

// wantTogether writes the desired records of several replicas in one transaction.
func (r *rig) wantTogether(all []*replica, intent record.Intent) {
	r.t.Helper()
	for _, p := range all {
		r.order(p, intent)
	}
	res, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, p := range all {
			tx.Put(record.DesiredServiceKey(clusterID, p.name), p.desired)
		}
		return nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range all {
		p.revision = res.Revision
	}
}

// want writes spec and desired record.
func (r *rig) want(p *replica, intent record.Intent, change ...func(*record.Desired)) {
	r.t.Helper()
	r.order(p, intent, change...)
	p.revision = r.put(record.DesiredServiceKey(clusterID, p.name), p.desired)
}

// order makes the desired record of a replica.
func (r *rig) order(p *replica, intent record.Intent, change ...func(*record.Desired)) {
	r.t.Helper()
	spec := r.stage(p)
	p.desired = record.Desired{V: 1, Intent: intent, Federation: "fed", GroupID: "g", UID: p.uid, Generation: p.generation,
		RequestID: uuid.NewString(), Owner: p.owner, Drift: p.drift, Spec: spec, Mark: record.Mark(p.token), SecretLeft: p.secretLeft}
	if intent == record.IntentPrepare || intent == record.IntentApply {
		p.desired.Deadline = new(record.At(time.Now().Add(time.Minute)))
	}
	if intent == record.IntentDelete {
		p.desired.Spec, p.desired.Drift = "", ""
	}
	for _, c := range change {
		c(&p.desired)
	}
}
