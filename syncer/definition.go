package syncer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// purposeSpec is the purpose of the envelope in a spec: a merge patch with the
// service token and the secrets.
const purposeSpec = "spec"

// annotationBuckets lists the buckets that this life's writes made. It goes out
// with the write that makes them, so that a syncer which dies before its report
// leaves the knowledge on the service itself.
const annotationBuckets = oscar.AnnotationPrefix + "buckets"

// definition is one generation of a service as it is to be sent, in clear text.
// Fields that the project does not know pass through it untouched.
type definition struct {
	fields map[string]json.RawMessage
	// compare is the definition as a tree, for difference.
	compare map[string]any
	service *oscar.Service
	// left are buckets that an earlier life of the same owner left behind.
	left []string
	// leavers are the services that did, where the control plane says so.
	leavers []string
	// secrets are the values that no report may hold.
	secrets []string
	// origin is what the spec says of the origin's storage, or nil, and place the storage
	// that is sent.
	origin *record.OriginStorage
	place  *place
	// volumeGoes says that the volume of its creation may go with it (record.Spec).
	volumeGoes bool
	// uid is the life that it is of.
	uid string
}

// errSpec says that a spec is not what a control plane writes.
var errSpec = errors.New("spec is not usable")

// openDefinition joins the public part of a spec with what is sealed to us, and with the
// storage that its jobs are to use.
func openDefinition(id *seal.Identity, cluster string, d *record.Desired, spec *record.Spec, at *place, now time.Time) (*definition, error) {
	body := []byte(spec.Service)
	var patch []byte
	if spec.Sealed != "" {
		var err error
		patch, err = id.Open(spec.Sealed, seal.Header{Purpose: purposeSpec, Cluster: cluster, UID: d.UID, Generation: d.Generation}, now)
		if err != nil {
			return nil, err
		}
		if body, err = oscar.MergePatch(body, patch); err != nil {
			return nil, err
		}
	}
	if at != nil {
		storage, err := at.patch()
		if err != nil {
			return nil, err
		}
		if body, err = oscar.MergePatch(body, storage); err != nil {
			return nil, err
		}
	}
	def := &definition{service: &oscar.Service{}, left: spec.Left, leavers: spec.LeftBy, origin: spec.Origin, place: at, volumeGoes: spec.VolumeGoes}
	// The decoders' errors could quote what they read.
	if json.Unmarshal(body, &def.fields) != nil || json.Unmarshal(body, def.service) != nil {
		return nil, fmt.Errorf("%w: %q is no service", errSpec, d.Spec)
	}
	var err error
	if def.compare, err = decodeObject(body); err != nil {
		return nil, err
	}
	if got := record.Mark(def.service.Token); got != d.Mark {
		return nil, fmt.Errorf("%w: the token in %q is not that of the desired record's mark", errSpec, d.Spec)
	}
	def.uid = d.UID
	if len(patch) > 0 {
		sealed, err := decodeObject(patch)
		if err != nil {
			return nil, err
		}
		def.secrets = leaves(sealed, nil)
	}
	return def, nil
}

// leaves gathers the strings of a JSON tree.
func leaves(v any, into []string) []string {
	switch x := v.(type) {
	case string:
		if x != "" {
			into = append(into, x)
		}
	case []any:
		for _, item := range x {
			into = leaves(item, into)
		}
	case map[string]any:
		for _, item := range x {
			into = leaves(item, into)
		}
	}
	return into
}

// makesBuckets says whether a POST makes the buckets of the definition. That of
// a mesh worker makes and touches none.
func (d *definition) makesBuckets() bool {
	worker := strings.EqualFold(strings.TrimSpace(d.service.Annotations[oscar.AnnotationWorker]), "true")
	mesh := d.service.Federation != nil && strings.EqualFold(strings.TrimSpace(d.service.Federation.Topology), oscar.TopologyMesh)
	return !worker || !mesh
}

// buckets are all buckets of the cluster's own MinIO that the definition names.
func (d *definition) buckets() []string { return oscar.Buckets(d.service) }

// dataBuckets are those of inputs and outputs: a POST refuses them when they
// exist, and a DELETE deletes them. A mount is of what the user has already.
func (d *definition) dataBuckets() []string {
	s := *d.service
	s.Mount, s.BucketList = oscar.IO{}, nil
	return oscar.Buckets(&s)
}

// leftBy says whether a service may have left the buckets that the spec names. A
// control plane before left_by did not say which.
func (d *definition) leftBy(service string) bool {
	return d.leavers == nil || slices.Contains(d.leavers, service)
}

// storage fields of a service.
const (
	fieldInput  = "input"
	fieldOutput = "output"
	fieldMount  = "mount"
)

// clearStorage takes input, output and mount out of a definition.
func clearStorage(fields map[string]json.RawMessage) {
	fields[fieldInput] = json.RawMessage(`[]`)
	fields[fieldOutput] = json.RawMessage(`[]`)
	fields[fieldMount] = json.RawMessage(`{"storage_provider":"","path":""}`)
}

// body is what is sent: the definition without a namespace (OSCAR would honour it),
// without storage when attaching, and with the annotation that names the buckets
// that this life made. A PUT keeps what OSCAR gave the service that stands, which is
// nil for a POST: the owner, what it gave to a user's service when he made it, and the
// volume. A POST that adopts a volume uses the one that is there.
//
// byOwner says that it is sent with the owner's token.
func (d *definition) body(stands *manager.Service, storage, adopts, byOwner bool, made []string) ([]byte, error) {
	fields := maps.Clone(d.fields)
	if err := d.giveVolume(fields, stands, adopts); err != nil {
		return nil, err
	}
	delete(fields, "namespace")
	if stands != nil {
		if err := d.giveBuckets(fields, stands, byOwner); err != nil {
			return nil, err
		}
	}
	fields["owner"] = mustJSON(oscar.OwnerAdmin)
	if stands != nil && stands.Owner != "" {
		fields["owner"] = mustJSON(stands.Owner)
		if err := keepAllotted(fields, stands.JSON); err != nil {
			return nil, err
		}
	}
	if !storage {
		clearStorage(fields)
	}
	if len(made) > 0 {
		annotations := maps.Clone(d.service.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationBuckets] = strings.Join(made, ",")
		fields["annotations"] = mustJSON(annotations)
	}
	return json.Marshal(fields)
}

// keepAllotted keeps the group (VO) that OSCAR found for a user's service, and the
// labels that it set for it, in a definition that does not name them: it would take
// their absence for a change, and the service's jobs would leave the user's quota.
func keepAllotted(fields map[string]json.RawMessage, shown json.RawMessage) error {
	var stands struct {
		VO     string            `json:"vo"`
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(shown, &stands); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	var asked struct {
		VO     string
		Labels map[string]string
	}
	for key, into := range map[string]any{"vo": &asked.VO, "labels": &asked.Labels} {
		if raw, ok := fields[key]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if asked.VO == "" && stands.VO != "" {
		fields["vo"] = mustJSON(stands.VO)
	}
	labels := map[string]string{}
	for _, key := range []string{"vo", "uid", "kueue.x-k8s.io/queue-name"} {
		if value, set := stands.Labels[key]; set {
			labels[key] = value
		}
	}
	if len(labels) > 0 {
		maps.Copy(labels, asked.Labels)
		fields["labels"] = mustJSON(labels)
	}
	return nil
}

// detachedBody is the service as OSCAR showed it, without storage. It sends no
// secrets: OSCAR shows them empty, and would store what it is sent. It names no
// members, lest OSCAR speak to them, and gives up user isolation, since OSCAR's
// DELETE deletes the users' own buckets of a service that has it.
func detachedBody(shown json.RawMessage) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(shown, &fields); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	clearStorage(fields)
	for _, key := range []string{"namespace", "clusters", "deployment", "volume_status"} {
		delete(fields, key)
	}
	fields["isolation_level"] = mustJSON("")
	if err := withoutSecrets(fields); err != nil {
		return nil, err
	}
	if raw, ok := fields["federation"]; ok {
		var federation map[string]json.RawMessage
		if err := json.Unmarshal(raw, &federation); err != nil {
			return nil, fmt.Errorf("federation: %w", err)
		}
		if federation != nil {
			federation["members"] = json.RawMessage(`[]`)
			fields["federation"] = mustJSON(federation)
		}
	}
	keepOwner(fields)
	return json.Marshal(fields)
}

// mustJSON encodes strings and maps of them, which cannot fail.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`null`)
	}
	return data
}

// bucketsIn reads annotationBuckets.
func bucketsIn(annotations map[string]string) []string {
	var out []string
	for name := range strings.SplitSeq(annotations[annotationBuckets], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// union merges lists of names: sorted, each once, never nil.
func union(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	out = slices.Compact(out)
	if out == nil {
		out = []string{}
	}
	return out
}
