package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// annotationBuckets lists the buckets that this life's writes made. It goes out
// with the write that makes them, so that a syncer which dies before its report
// leaves the knowledge on the service itself.
const annotationBuckets = oscar.AnnotationPrefix + "buckets"

// Definition is one generation of a service as it is to be sent, in clear text.
// Fields that the project does not know pass through it untouched.
type Definition struct {
	fields map[string]json.RawMessage
	// Compare is the definition as a tree, for difference.
	Compare map[string]any
	Service *oscar.Service
	// Left are buckets that an earlier life of the same owner left behind.
	Left []string
	// leavers are the services that did, where the control plane says so.
	leavers []string
	// Secrets are the values that no report may hold.
	Secrets []string
	// origin is what the spec says of the origin's storage, or nil, and place the storage
	// that is sent.
	origin  *record.OriginStorage
	Storage *Storage
	// VolumeGoes says that the volume of its creation may go with it (record.Spec).
	VolumeGoes bool
	// UID is the life that it is of.
	UID string
}

// ErrSpec says that a spec is not what a control plane writes.
var ErrSpec = errors.New("spec is not usable")

// Unusable says of an error that a definition can never be opened as it was sent.
func Unusable(err error) bool {
	return errors.Is(err, seal.ErrUndecryptable) || errors.Is(err, seal.ErrMismatch) || errors.Is(err, seal.ErrStale) || errors.Is(err, ErrSpec)
}

// join is the public part of a spec, and the merge patch with the secrets that are sealed to us. set
// is nil for a spec without parts.
func join(id *seal.Identity, cluster string, d *record.Desired, spec *record.Spec, set *parts.Set, now time.Time) (service, secrets []byte, err error) {
	h := seal.Header{Purpose: seal.PurposeSpec, Cluster: cluster, UID: d.UID, Generation: d.Generation}
	if set == nil {
		if spec.Sealed != "" {
			secrets, err = id.Open(spec.Sealed, h, now)
		}
		return spec.Service, secrets, err
	}
	h.Purpose = seal.PurposeSpecChanges
	payload, err := id.Open(spec.Sealed, h, now)
	if err != nil {
		return nil, nil, err
	}
	service, secrets, err = set.Spec(spec.Changes, payload, now)
	if errors.Is(err, parts.ErrUnusable) {
		err = fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return service, secrets, err
}

// open joins the public part of a spec with what is sealed to us, and with the
// storage that its jobs are to use.
func open(id *seal.Identity, cluster string, d *record.Desired, spec *record.Spec, set *parts.Set, at *Storage, now time.Time) (*Definition, error) {
	body, patch, err := join(id, cluster, d, spec, set, now)
	if err != nil {
		return nil, err
	}
	var patches [][]byte
	if len(patch) > 0 {
		patches = append(patches, patch)
	}
	storage, err := at.patch()
	if err != nil {
		return nil, err
	}
	if body, err = oscar.MergePatch(body, append(patches, storage)...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err) // which has no value of any
	}
	def := &Definition{Service: &oscar.Service{}, Left: spec.Left, leavers: spec.LeftBy, origin: spec.Origin, Storage: at, VolumeGoes: spec.VolumeGoes}
	// The decoders' errors could quote what they read.
	if json.Unmarshal(body, &def.fields) != nil || json.Unmarshal(body, def.Service) != nil {
		return nil, fmt.Errorf("%w: %q is no service", ErrSpec, d.Spec)
	}
	if def.Compare, err = DecodeObject(body); err != nil {
		return nil, err
	}
	if got := record.Mark(def.Service.Token); got != d.Mark {
		return nil, fmt.Errorf("%w: the token in %q is not that of the desired record's mark", ErrSpec, d.Spec)
	}
	def.UID = d.UID
	if len(patch) > 0 {
		sealed, err := DecodeObject(patch)
		if err != nil {
			return nil, err
		}
		def.Secrets = leaves(sealed, nil)
	}
	return def, nil
}

// Asked is a definition that the cluster is only asked about: it has no secrets, and is sent to no
// OSCAR.
func Asked(service json.RawMessage, left, leftBy []string) (*Definition, error) {
	def := &Definition{Service: &oscar.Service{}, Left: left, leavers: leftBy}
	if json.Unmarshal(service, def.Service) != nil { // whose error could quote what it read
		return nil, fmt.Errorf("%w: what is asked about is no service", ErrSpec)
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

// Worker says that another cluster's service is its coordinator.
func (d *Definition) Worker() bool {
	_, worker := originOf(d.Compare)
	return worker
}

// MakesBuckets says whether a POST makes the buckets of the definition: it does on the cluster's own
// storage, and makes and touches none on another (Storage.patch).
func (d *Definition) MakesBuckets() bool { return d.Storage == nil }

// Buckets are all buckets of the cluster's own MinIO that the definition names.
func (d *Definition) Buckets() []string { return oscar.Buckets(d.Service) }

// DataBuckets are those of inputs and outputs: a POST refuses them when they
// exist, and a DELETE deletes them. A mount is of what the user has already.
func (d *Definition) DataBuckets() []string {
	s := *d.Service
	s.Mount, s.BucketList = oscar.IO{}, nil
	return oscar.Buckets(&s)
}

// Elsewhere are the names of buckets that outputs have in other stores, but for those that the cluster's own MinIO is to
// have for it, too.
func (d *Definition) Elsewhere() []string {
	own := d.DataBuckets()
	return slices.DeleteFunc(oscar.BucketsElsewhere(d.Service), func(name string) bool { return slices.Contains(own, name) })
}

// InputBuckets are those of inputs: uploads there start jobs of the service.
func (d *Definition) InputBuckets() []string {
	s := *d.Service
	s.Output, s.Mount, s.BucketList = nil, oscar.IO{}, nil
	return oscar.Buckets(&s)
}

// Mounted is the bucket of the cluster's own MinIO that the definition mounts, if any.
func (d *Definition) Mounted() []string {
	s := *d.Service
	s.Input, s.Output, s.BucketList = nil, nil, nil
	return oscar.Buckets(&s)
}

// LeftBy says whether a service may have left the buckets that the spec names. A
// control plane before left_by did not say which.
func (d *Definition) LeftBy(service string) bool {
	return d.leavers == nil || slices.Contains(d.leavers, service)
}

// BucketsMade reads annotationBuckets.
func BucketsMade(annotations map[string]string) []string {
	var out []string
	for name := range strings.SplitSeq(annotations[annotationBuckets], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Union merges lists of names: sorted, each once, never nil.
func Union(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	out = slices.Compact(out)
	if out == nil {
		out = []string{}
	}
	return out
}

// UsersService says whether a service is made with its owner's token.
func UsersService(d *record.Desired) bool { return d.Owner != oscar.OwnerAdmin }

// BucketsOf are the buckets that a service of OSCAR names.
func BucketsOf(service *manager.Service) ([]string, error) {
	return namedIn(service.JSON, oscar.Buckets)
}

// ElsewhereOf are the names of buckets in other stores that a service of OSCAR names.
func ElsewhereOf(service *manager.Service) ([]string, error) {
	return namedIn(service.JSON, oscar.BucketsElsewhere)
}

func namedIn(shown json.RawMessage, buckets func(*oscar.Service) []string) ([]string, error) {
	var s oscar.Service
	if err := json.Unmarshal(shown, &s); err != nil {
		return nil, err
	}
	return buckets(&s), nil
}

// SameOwner compares a bucket's owner with that of a desired record. OSCAR tags
// what its administrator makes with an empty owner, with oscar or with
// cluster_admin, depending on the call.
func SameOwner(bucket, desired string) bool {
	if desired == oscar.OwnerAdmin {
		return bucket == "" || bucket == oscar.OwnerAdmin || bucket == "oscar"
	}
	return bucket == desired
}
