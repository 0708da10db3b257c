package oscarsim

import (
	"regexp"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// isolationUser is the level under which each allowed user has a bucket of his own, which is named after the bucket of
// the input and the head of his id. A POST takes it in any case, a PUT letter by letter.
const (
	isolationUser = "USER"
	userHead      = 10
)

// isolate lists the buckets of the allowed users, as POST and PUT of a user's service both do. It reports false for what
// makes OSCAR panic: an id without a head. The administrator's is empty.
func isolate(svc *wire.Service, uid string) bool {
	if len(svc.AllowedUsers) == 0 {
		return true
	}
	listed := false
	for _, in := range svc.Input {
		if kind, _ := wire.Provider(in.Provider); kind != "minio" {
			continue
		}
		head := regexp.MustCompile("^.*?[0-9a-z]+@").FindString(uid) // of an EGI id
		if head == "" {
			head = uid
		}
		if head = strings.TrimSuffix(head, "@"); len(head) < userHead {
			return false
		}
		svc.Labels["uid"] = head[:userHead]
		bucket, _ := wire.Bucket(in.Path)
		for _, user := range svc.AllowedUsers {
			if len(user) < userHead {
				return false
			}
			listed = listed || user == svc.Owner
			svc.BucketList = append(svc.BucketList, bucket+"-"+user[:userHead])
		}
		if !listed {
			svc.AllowedUsers = append(svc.AllowedUsers, uid)
		}
	}
	return true
}

func isolated(svc *wire.Service) bool { return strings.EqualFold(svc.IsolationLevel, isolationUser) }

// makePrivate makes the users' own buckets for one input.
func (m *minio) makePrivate(svc *wire.Service, folder string, update bool) error {
	if !isolated(svc) {
		return nil
	}
	for _, name := range svc.BucketList {
		b, err := m.makeBucket(name)
		if err == nil && folder != "" {
			b.objects[folder+"/"] = object{}
			err = m.enable(b, svc.Name, folder+"/")
		}
		if err != nil && !update {
			return err
		}
	}
	return nil
}

// dropPrivate empties and deletes the users' own buckets that a PUT leaves out.
func (m *minio) dropPrivate(old, svc *wire.Service) {
	if old.IsolationLevel != isolationUser {
		return
	}
	for _, name := range old.BucketList {
		if !slices.Contains(svc.BucketList, name) {
			delete(m.buckets, name)
		}
	}
}
