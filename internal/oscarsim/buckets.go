package oscarsim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// objectsPerPage is how many objects one answer holds.
const objectsPerPage = 70

type bucketInfo struct {
	Name         string            `json:"bucket_name"`
	Visibility   string            `json:"visibility"`
	AllowedUsers []string          `json:"allowed_users"`
	Owner        string            `json:"owner"`
	Metadata     map[string]string `json:"metadata"`
	Objects      []objectInfo      `json:"objects,omitempty"`
	Quota        *bucketQuota      `json:"storage_quota,omitempty"`
	Usage        *bucketUsage      `json:"storage_usage,omitempty"`
	Attribution  string            `json:"attribution,omitempty"`
}

type objectInfo struct {
	Name     string `json:"object_name"`
	Size     int64  `json:"size_bytes"`
	Modified string `json:"last_modified,omitempty"`
}

type bucketQuota struct {
	Source string `json:"source"`
}

type bucketUsage struct {
	Used      string `json:"used"`
	UsedBytes int64  `json:"used_bytes"`
	Objects   int64  `json:"objects,omitempty"`
}

// bucketInfo describes a bucket for the administrator. The caller holds the lock.
func (s *Sim) bucketInfo(name, owner string) bucketInfo {
	info := bucketInfo{
		Name: name, Visibility: s.minio.visibility(name, owner), Metadata: map[string]string{},
		Quota: &bucketQuota{Source: "unset"}, Usage: &bucketUsage{}, Attribution: "complete",
	}
	b := s.minio.buckets[name]
	if info.Visibility == "restricted" && !b.groupless {
		info.AllowedUsers = b.members
	}
	maps.Copy(info.Metadata, b.tags)
	for _, o := range b.objects {
		info.Usage.UsedBytes += o.size
	}
	info.Usage.Used, info.Usage.Objects = fmt.Sprint(info.Usage.UsedBytes), int64(len(b.objects))
	return info
}

// listBuckets answers all buckets without their objects. The owner is taken out of the metadata.
func (s *Sim) listBuckets(c *call) {
	if err := s.reachMinIO(c, "Get", "/"); err != nil {
		c.text(http.StatusInternalServerError, "RequestError: send request failed\ncaused by: "+err.Error())
		return
	}
	if c.dropped {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []bucketInfo
	for _, name := range slices.Sorted(maps.Keys(s.minio.buckets)) {
		if !s.ownsBucket(c, name) || c.user != nil && s.minio.buckets[name].groupless {
			continue
		}
		owner := ""
		if c.user != nil {
			owner = c.user.Subject
		}
		info := s.bucketInfo(name, owner)
		info.Owner = info.Metadata["owner"]
		delete(info.Metadata, "owner")
		list = append(list, info)
	}
	c.json(http.StatusOK, list)
}

// ownsBucket reports whether the caller owns a bucket; the administrator owns every one. The
// caller holds the lock.
func (s *Sim) ownsBucket(c *call, name string) bool {
	return c.user == nil || s.minio.buckets[name].tags["owner"] == c.user.Subject
}

// getBucket answers one bucket with a page of its objects.
func (s *Sim) getBucket(c *call) {
	if err := s.reachMinIO(c, "Get", "/"+c.params[0]); err != nil {
		c.text(http.StatusInternalServerError, "RequestError: send request failed\ncaused by: "+err.Error())
		return
	}
	if c.dropped {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.params[0]
	b := s.minio.buckets[name]
	if b == nil {
		c.text(http.StatusInternalServerError, fmt.Sprintf("Error listing objects in bucket '%s': NoSuchBucket: The specified bucket does not exist\n\tstatus code: 404, request id: 18A1B2C3D4E5F607, host id: dd9025bab4ad464b049177c95eb6ebf374d3b3fd1af9251148b658df7ac2e3e8", name))
		return
	}
	if !s.ownsBucket(c, name) {
		c.text(http.StatusForbidden, fmt.Sprintf("User '%s' is not authorised", c.user.Subject))
		return
	}
	owner := b.tags["owner"]
	if owner == "" {
		owner = wire.AdminOwner
	}
	answer := struct {
		bucketInfo
		NextPage  string `json:"next_page,omitempty"`
		Truncated bool   `json:"is_truncated"`
		Returned  int    `json:"returned_items"`
	}{bucketInfo: s.bucketInfo(name, owner)}
	answer.Owner = owner
	after := c.query("page")
	for _, object := range slices.Sorted(maps.Keys(b.objects)) {
		if object <= after {
			continue
		}
		if len(answer.Objects) == objectsPerPage {
			answer.NextPage, answer.Truncated = answer.Objects[objectsPerPage-1].Name, true
			break
		}
		o := b.objects[object]
		answer.Objects = append(answer.Objects, objectInfo{object, o.size, o.modified.Format(time.DateTime) + " +0000 UTC"})
	}
	answer.Returned = len(answer.Objects)
	c.json(http.StatusOK, answer)
}

const badBucket = "The Bucket specification is not valid: "

// createBucket makes a bucket of the administrator's own.
func (s *Sim) createBucket(c *call) {
	var in bucketInfo
	if err := wire.JSON(c.body, &in); err != nil {
		c.text(http.StatusBadRequest, badBucket+err.Error())
		return
	}
	name, folder := wire.Bucket(in.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.minio.makeBucket(name)
	if err != nil {
		c.text(http.StatusBadRequest, fmt.Sprintf("Error creating bucket with name '%s': %v", name, err))
		return
	}
	if folder != "" {
		b.objects[folder+"/"] = object{}
	}
	b.tags = map[string]string{"owner": s.cfg.Name, "owner_name": c.ownerName()}
	if c.user != nil {
		b.tags["owner"] = c.user.Subject
		s.share(c, "Error creating policies for bucket: ", name, in)
	}
	c.code(http.StatusCreated)
}

// share sets the policies of a user's bucket. The caller holds the lock.
func (s *Sim) share(c *call, prefix, name string, in bucketInfo) {
	if err := s.minio.setPolicies(name, c.user.Subject, cmp.Or(in.Visibility, "private"), in.AllowedUsers); err != nil {
		c.text(http.StatusInternalServerError, prefix+err.Error())
	}
}

// updateBucket changes who may see a user's bucket. The administrator can take a public one from all users, and has no
// policy of his own to put it into.
func (s *Sim) updateBucket(c *call) {
	var in bucketInfo
	if err := wire.JSON(c.body, &in); err != nil {
		c.text(http.StatusBadRequest, badBucket+err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.minio.buckets[in.Name]
	switch {
	case b == nil || len(b.tags) == 0:
		c.text(http.StatusInternalServerError, "Missing bucket metadata: \n")
	case !s.ownsBucket(c, in.Name):
		c.text(http.StatusForbidden, fmt.Sprintf("User '%s' is not authorised", c.user.Subject))
	case strings.EqualFold(b.tags["service"], "true"):
		c.text(http.StatusForbidden, "Forbidden action: A bucket from a service can't be modified\n")
	default:
		switch {
		case c.user != nil && in.Visibility != "":
			s.minio.dropPolicies(in.Name)
			s.share(c, "", in.Name, in)
		case c.user == nil && in.Visibility != "public" && s.minio.visibility(in.Name, s.cfg.Name) == "public":
			_ = s.minio.unset(in.Name, s.cfg.Name, "public")
			if err := s.minio.setPolicies(in.Name, s.cfg.Name, in.Visibility, nil); err != nil {
				c.text(http.StatusInternalServerError, "error updating bucket: "+err.Error()+"\n")
				return
			}
		}
		c.code(http.StatusNoContent)
	}
}

// deleteBucket empties and deletes a bucket. Only its owner's call takes it out of the policies.
func (s *Sim) deleteBucket(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.params[0]
	if s.minio.buckets[name] == nil {
		c.text(http.StatusNotFound, fmt.Sprintf("The bucket '%s' does not exist", name))
		return
	}
	if !s.ownsBucket(c, name) {
		c.text(http.StatusForbidden, fmt.Sprintf("User '%s' is not authorised", c.user.Subject))
		return
	}
	if c.user != nil {
		if err := s.minio.unset(name, c.user.Subject, s.minio.visibility(name, c.user.Subject)); err != nil {
			c.text(http.StatusInternalServerError, err.Error()+"\n") // the bucket stays
			return
		}
	}
	delete(s.minio.buckets, name)
	c.code(http.StatusNoContent)
}
