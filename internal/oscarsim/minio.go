package oscarsim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// minio is the MinIO beside an OSCAR. The Sim's lock guards it.
type minio struct {
	buckets map[string]*bucket
	// webhooks holds the registered notification targets, service name to token. An entry outlives its service when a
	// create failed after it.
	webhooks map[string]string
	// policies holds the buckets that a user's policy names. The administrator of OSCAR is no MinIO user, so his policy
	// is written and can never be attached.
	policies map[string][]string
	// users are the users that OSCAR has made a MinIO user for, at their first call.
	users map[string]bool
	// revived are buckets that stand again when MinIO has started.
	revived []string
}

type bucket struct {
	objects       map[string]object
	tags          map[string]string
	notifications []notification
	// members are in its group if it is restricted, and groupless says that this group is gone.
	members   []string
	groupless bool
}

type object struct {
	size     int64
	modified time.Time
	// content is there of what came by a presigned link.
	content []byte
}

// notification sends uploads below prefix to the webhook of a service. While that webhook is not registered it is
// dangling: MinIO hides it, and it is live again once a service of that name is registered.
type notification struct{ service, prefix string }

func newMinio() minio {
	return minio{buckets: map[string]*bucket{}, webhooks: map[string]string{}, policies: map[string][]string{}, users: map[string]bool{}}
}

// makeBucket makes an empty bucket, with OSCAR's own wording of a refusal.
func (m *minio) makeBucket(name string) (*bucket, error) {
	if m.buckets[name] != nil {
		return nil, refusal(fmt.Sprintf("the bucket %q already exists\n", name))
	}
	if !validBucket(name) {
		return nil, fmt.Errorf("error creating bucket %s: InvalidBucketName: The specified bucket is not valid.\n\tstatus code: 400, request id: 18A1B2C3D4E5F607, host id: dd9025bab4ad464b049177c95eb6ebf374d3b3fd1af9251148b658df7ac2e3e8", name)
	}
	b := &bucket{objects: map[string]object{}}
	m.buckets[name] = b
	return b, nil
}

// visible are the notifications that MinIO shows: those whose webhook is registered.
func (m *minio) visible(b *bucket) []notification {
	return slices.DeleteFunc(slices.Clone(b.notifications), func(n notification) bool {
		_, ok := m.webhooks[n.service]
		return !ok
	})
}

// enable adds a notification, which MinIO refuses for a webhook that is not registered. Reading and writing back drops
// the dangling ones, as MinIO hides them.
func (m *minio) enable(b *bucket, service, prefix string) error {
	if _, registered := m.webhooks[service]; !registered {
		return refusal("error enabling bucket notification: InvalidArgument: A specified destination ARN does not exist or is not well-formed. Verify the destination ARN.")
	}
	b.notifications = append(m.visible(b), notification{service, prefix})
	return nil
}

// disable removes a service's notifications from a bucket, if there is one.
func (m *minio) disable(name, service string) {
	b := m.buckets[name]
	if b == nil {
		return
	}
	b.notifications = slices.DeleteFunc(m.visible(b), func(n notification) bool { return n.service == service })
}

// allUsers is the group, and the policy, of all users.
const allUsers = "all_users_group"

func (m *minio) inPolicy(policy, bucket string) bool {
	return slices.Contains(m.policies[policy], bucket)
}

// visibility is what OSCAR derives from policies; "" for the administrator's buckets.
func (m *minio) visibility(bucket, owner string) string {
	switch {
	case m.inPolicy(bucket, bucket):
		return "restricted"
	case m.inPolicy(owner, bucket):
		return "private"
	case m.inPolicy(allUsers, bucket):
		return "public"
	}
	return ""
}

// dropPolicies takes a bucket out of all policies.
func (m *minio) dropPolicies(bucket string) {
	for name, buckets := range m.policies {
		m.policies[name] = slices.DeleteFunc(buckets, func(b string) bool { return b == bucket })
	}
}

// revoke takes a bucket out of a policy, as OSCAR does: of a policy that names one bucket it takes that, whichever it
// is. It reports false where there is no such policy.
func (m *minio) revoke(bucket, policy string) bool {
	named, ok := m.policies[policy]
	if !ok {
		return false
	}
	m.policies[policy] = slices.DeleteFunc(named, func(b string) bool { return b == bucket || len(named) == 1 })
	return true
}

// unset takes a bucket out of the policies that its visibility has put it into, and says what cannot be done.
func (m *minio) unset(bucket, owner, visibility string) error {
	policy := owner
	if visibility == "public" {
		policy = allUsers
	}
	if !m.revoke(bucket, policy) {
		return errors.New("error removing resource")
	}
	if visibility != "restricted" {
		return nil
	}
	if b := m.buckets[bucket]; b == nil || len(b.members) == 0 || b.groupless {
		// To empty a group without members removes it, and then it cannot be removed.
		if b != nil {
			b.groupless = true
		}
		return errors.New("error removing policy for group")
	}
	delete(m.policies, bucket)
	return nil
}

// setPolicies is what a PUT does for each bucket that is new to the definition. It writes the owner's policy and then
// fails to attach it, since neither the administrator nor the groups exist in MinIO without OIDC. For a user it works.
// A bucket that is restricted has a group with its name, which takes users of MinIO only: those who were at this OSCAR.
func (m *minio) setPolicies(bucket, owner, visibility string, allowed []string) error {
	name, prefix, who := owner, "", "user"
	if visibility != "private" && visibility != "restricted" {
		name, prefix, who = allUsers, "error creating policy: ", "group"
	}
	if name == "" {
		return errors.New(prefix + "error creating/adding MinIO policy for user/group : Invalid arguments specified. (Invalid arguments specified)")
	}
	if !m.inPolicy(name, bucket) {
		m.policies[name] = append(m.policies[name], bucket)
	}
	if m.users[owner] && visibility == "restricted" {
		return m.restrict(bucket, allowed)
	}
	if m.users[owner] {
		return nil
	}
	return fmt.Errorf("%serror setting MinIO policy for user/group %s: The specified %s does not exist. (Specified %s does not exist)", prefix, name, who, who)
}

// restrict makes the group of a bucket, and its policy.
func (m *minio) restrict(bucket string, allowed []string) error {
	for _, user := range allowed {
		if !m.users[user] {
			return fmt.Errorf("error creating bucket group: error creating/updating MinIO group %s: The specified user does not exist. (Specified user does not exist)", bucket)
		}
	}
	m.policies[bucket] = []string{bucket}
	if b := m.buckets[bucket]; b != nil {
		b.members, b.groupless = allowed, false
	}
	return nil
}

// makeBuckets makes what a definition needs and returns the buckets it names, in order. On update an existing bucket
// is no error, and what is missing in it is not added.
func (m *minio) makeBuckets(svc *wire.Service, own wire.MinIOProvider, update bool) ([]string, error) {
	var named []string
	for _, in := range svc.Input {
		kind, id := wire.Provider(in.Provider)
		switch kind {
		case "minio":
		case "webdav", "rucio":
			continue
		default:
			return nil, errInput
		}
		if !svc.Defined(kind, id) {
			return nil, undefinedProvider(kind, id)
		}
		if id != wire.DefaultProvider && *svc.StorageProviders.MinIO[id] != own {
			return nil, fmt.Errorf("the provided MinIO server %q is not the configured in OSCAR", svc.StorageProviders.MinIO[id].Endpoint)
		}
		name, folder := wire.Bucket(in.Path)
		b, err := m.makeBucket(name)
		switch {
		case err == nil && folder == "":
			err = fmt.Errorf("error enabling webhook for bucket, missing foler on path %q", []string{name})
		case err == nil:
			b.objects[folder+"/"] = object{}
			err = m.enable(b, svc.Name, folder+"/")
		}
		if err != nil && !update {
			return nil, err
		}
		named = append(named, name)
		if err := m.makePrivate(svc, folder, update); err != nil {
			return nil, err
		}
	}
	for _, out := range svc.Output {
		kind, id := wire.Provider(out.Provider)
		if !svc.Defined(kind, id) {
			return nil, undefinedProvider(kind, id)
		}
		if kind != "minio" && kind != "s3" {
			continue
		}
		name, folder := wire.Bucket(out.Path)
		known := slices.Contains(named, name)
		if !known {
			named = append(named, name)
		}
		err := m.makePath(svc, kind, id, name, folder, known)
		if err != nil && !update {
			return nil, err
		}
	}
	return m.makeMount(svc, named, update)
}

// makePath makes a folder in a bucket, and the bucket unless it is known. Stores of others cannot be reached.
func (m *minio) makePath(svc *wire.Service, kind, id, name, folder string, known bool) error {
	if kind == "s3" || id != wire.DefaultProvider {
		endpoint := "https://s3.amazonaws.com"
		if kind == "minio" {
			endpoint = svc.StorageProviders.MinIO[id].Endpoint
		}
		return fmt.Errorf("error creating bucket %s: RequestError: send request failed\ncaused by: %w", name, refused("Put", endpoint+"/"+name))
	}
	b := m.buckets[name]
	if !known {
		made, err := m.makeBucket(name)
		if err != nil {
			return err
		}
		b = made
	}
	if b == nil {
		return fmt.Errorf("error creating folder %q in bucket %q: NoSuchBucket: The specified bucket does not exist", folder+"/", name)
	}
	if folder != "" {
		b.objects[folder+"/"] = object{}
	}
	return nil
}

// makeMount makes or checks the mounted bucket, which has to be private: one without tags or of the administrator is.
func (m *minio) makeMount(svc *wire.Service, named []string, update bool) ([]string, error) {
	if svc.Mount.Provider == "" {
		return named, nil
	}
	kind, id := wire.Provider(svc.Mount.Provider)
	if kind != "minio" {
		return named, nil
	}
	if !svc.Defined(kind, id) {
		return nil, undefinedProvider(kind, id)
	}
	if id != wire.DefaultProvider {
		return named, nil
	}
	name, folder := wire.Bucket(svc.Mount.Path)
	switch b := m.buckets[name]; {
	case slices.Contains(named, name):
		if err := m.makePath(svc, kind, id, name, folder, true); err != nil && !update {
			return nil, err
		}
		return named, nil
	case b != nil:
		visibility := m.visibility(name, svc.Owner)
		if owner := b.tags["owner"]; visibility == "" && (owner == "" || owner == "oscar") {
			visibility = "private"
		}
		if visibility != "private" {
			return nil, fmt.Errorf("the bucket %q must be private to be used as mount", name)
		}
		_ = m.makePath(svc, kind, id, name, folder, true)
		return append(named, name), nil
	default:
		if err := m.makePath(svc, kind, id, name, folder, false); err != nil {
			return nil, err
		}
		return append(named, name), nil
	}
}

// deleteBuckets empties and deletes every bucket that the inputs and outputs name, also one that
// others made, except the one that is mounted, whose tags it overwrites. It stops at the first
// error.
func (m *minio) deleteBuckets(svc *wire.Service) error {
	inputs := map[string]bool{}
	for _, in := range svc.Input {
		kind, id := wire.Provider(in.Provider)
		name, _ := wire.Bucket(in.Path)
		inputs[kind+"."+id+"/"+name] = true
		switch kind {
		case "minio":
		case "webdav", "rucio":
			continue
		default:
			return errInput
		}
		if !svc.Defined(kind, id) {
			return undefinedProvider(kind, id)
		}
		if err := m.deleteOne(svc, in, name); err != nil {
			return err
		}
	}
	for _, out := range svc.Output {
		kind, id := wire.Provider(out.Provider)
		name, _ := wire.Bucket(out.Path)
		if kind == "webdav" || kind == "rucio" {
			continue
		}
		if !svc.Defined(kind, id) {
			return undefinedProvider(kind, id)
		}
		if kind != "minio" && kind != "s3" || inputs[kind+"."+id+"/"+name] {
			continue
		}
		if err := m.deleteOne(svc, out, name); err != nil {
			return err
		}
	}
	if isolated(svc) {
		for _, name := range svc.BucketList {
			delete(m.buckets, name)
		}
	}
	return nil
}

func (m *minio) deleteOne(svc *wire.Service, io wire.StorageIOConfig, name string) error {
	m.disable(name, svc.Name)
	if sameStorage(io, svc.Mount) {
		b := m.buckets[name]
		if b == nil {
			return refusal("Error tagging bucket: error setting tag on bucket " + name)
		}
		b.tags = map[string]string{"owner": svc.Owner, "service": "false"}
		return nil
	}
	if svc.Owner != wire.AdminOwner {
		// Where the owner's policy is not there (no MinIO users without OIDC) OSCAR gives up before the bucket.
		if err := m.unset(name, svc.Owner, svc.Visibility); err != nil {
			return fmt.Errorf("error while removing MinIO bucket %w", err)
		}
	}
	if m.buckets[name] == nil {
		return errNoSuchBucket
	}
	delete(m.buckets, name)
	return nil
}

// refusal is an error in OSCAR's or Kubernetes' own words, capitals and line feeds included.
type refusal string

func (r refusal) Error() string { return string(r) }

var (
	errInput        = errors.New("unrecognized input (valid inputs are MinIO and dCache)")
	errNoSuchBucket = errors.New("NoSuchBucket: The specified bucket does not exist")
)

func undefinedProvider(kind, id string) error {
	return fmt.Errorf("the StorageProvider \"%s.%s\" is not defined", kind, id)
}

func sameStorage(a, b wire.StorageIOConfig) bool {
	aKind, aID := wire.Provider(a.Provider)
	bKind, bID := wire.Provider(b.Provider)
	aBucket, _ := wire.Bucket(a.Path)
	bBucket, _ := wire.Bucket(b.Path)
	return aKind == bKind && aID == bID && aBucket == bBucket
}

// validBucket holds MinIO's strict rule for names of new buckets.
func validBucket(name string) bool {
	if len(name) < 3 || len(name) > 63 || strings.Contains(name, "..") || strings.Contains(name, ".-") || strings.Contains(name, "-.") {
		return false
	}
	for i, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || i == len(name)-1 || c != '-' && c != '.') {
			return false
		}
	}
	_, err := netip.ParseAddr(name)
	return err != nil
}
