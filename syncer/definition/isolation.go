package definition

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// Under isolation USER each allowed user has a bucket of his own. OSCAR lists them in
// the service (bucket_list), and a PUT
//
//   - empties and deletes each bucket that the service lists and that is not listed any
//     more: what it shows has to be sent back, whatever the level is to be;
//   - adds those of the allowed users to what is sent, makes them users of MinIO and
//     gives them their Secrets, when the level is USER in these very letters. For that
//     it needs the id of the caller, and fails with 500, having done nothing, when that is
//     the administrator. In other letters it leaves this out, and the level means the
//     same everywhere else.
//
// So a PUT of the cluster's own credential says it in lower case. One that adds a user's
// bucket is sent with the owner's token, as the creation was.

// shownBuckets are the users' own buckets as OSCAR shows them, each once, in order.
func shownBuckets(stands *manager.Service) ([]string, error) {
	var shown struct {
		BucketList []string `json:"bucket_list"`
	}
	if err := json.Unmarshal(stands.JSON, &shown); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	var out []string
	for _, bucket := range shown.BucketList {
		if !slices.Contains(out, bucket) {
			out = append(out, bucket)
		}
	}
	return out, nil
}

// AddsUsers says whether a PUT of the definition gives a user a bucket that the service
// does not list: OSCAR has to prepare it, as the owner.
func (d *Definition) AddsUsers(stands *manager.Service) (bool, error) {
	private := oscar.PrivateBuckets(d.Service)
	if len(private) == 0 {
		return false, nil
	}
	shown, err := shownBuckets(stands)
	return slices.ContainsFunc(private, func(bucket string) bool { return !slices.Contains(shown, bucket) }), err
}

// giveBuckets writes level and users' own buckets into the body of a PUT.
func (d *Definition) giveBuckets(fields map[string]json.RawMessage, stands *manager.Service, byOwner bool) error {
	list, err := shownBuckets(stands)
	if err != nil {
		return err
	}
	if strings.EqualFold(d.Service.IsolationLevel, oscar.IsolationUser) {
		level := strings.ToLower(oscar.IsolationUser)
		if byOwner {
			level = oscar.IsolationUser
			private := oscar.PrivateBuckets(d.Service) // OSCAR adds them
			list = slices.DeleteFunc(list, func(bucket string) bool { return slices.Contains(private, bucket) })
		}
		fields["isolation_level"] = mustJSON(level)
	}
	delete(fields, "bucket_list")
	if len(list) > 0 {
		fields["bucket_list"] = mustJSON(list)
	}
	return nil
}

// keepIsolation is for a PUT of what OSCAR showed, by the cluster's own credential.
func keepIsolation(fields map[string]json.RawMessage) {
	var level string
	if json.Unmarshal(fields["isolation_level"], &level) == nil && strings.EqualFold(level, oscar.IsolationUser) {
		fields["isolation_level"] = mustJSON(strings.ToLower(oscar.IsolationUser))
	}
}
