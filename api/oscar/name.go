package oscar

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	clusterID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	bucket    = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`)
)

// ValidClusterID says whether id can name a cluster: at most 63 letters (upper
// and lower case differ), digits, '.', '_' and '-', a letter or digit first and last.
func ValidClusterID(id string) bool {
	return len(id) <= MaxIDLength && clusterID.MatchString(id)
}

// ValidServiceName says whether OSCAR, Kubernetes and MinIO accept a service name.
func ValidServiceName(name string) bool {
	return len(name) >= MinNameLength && len(name) <= MaxNameLength && len(validation.IsDNS1123Label(name)) == 0
}

// ValidGroupID says whether id can name a federation: as a cluster_id, and not
// in the form of a uid, since both stand in the same place of a path.
func ValidGroupID(id string) bool {
	return ValidClusterID(id) && uuid.Validate(id) != nil
}

// validBucket follows MinIO's strict rules.
func validBucket(name string) bool {
	return len(name) >= MinNameLength && len(name) <= 63 && bucket.MatchString(name) &&
		!strings.Contains(name, "..") && !strings.Contains(name, ".-") && !strings.Contains(name, "-.") && net.ParseIP(name) == nil
}

// checkServiceName reports why a service name at path is refused.
func checkServiceName(path, name string) []Violation {
	switch {
	case strings.TrimSpace(name) == "":
		return []Violation{{Path: path, Rule: RuleRequired, Message: fmt.Sprintf(
			"%s is missing; give a name of %d to %d lower-case letters, digits and '-'", path, MinNameLength, MaxNameLength)}}
	case len(name) > MaxNameLength:
		return []Violation{{Path: path, Rule: RuleMaxLength, Value: shorten(name), Message: fmt.Sprintf(
			"name %s has %d characters; the limit of OSCAR is %d", quote(name), len(name), MaxNameLength)}}
	case len(name) < MinNameLength:
		return []Violation{{Path: path, Rule: RuleName, Value: name, Message: fmt.Sprintf(
			"name %q has %d characters; MinIO refuses a bucket of fewer than %d, and a bucket may be named as the service", name, len(name), MinNameLength)}}
	case !ValidServiceName(name):
		return []Violation{{Path: path, Rule: RuleName, Value: name, Message: fmt.Sprintf(
			"name %q is refused by Kubernetes; use lower-case letters, digits and '-', a letter or digit first and last", name)}}
	}
	return nil
}

// checkClusterID reports why a cluster_id at path is refused. An empty one is not its matter.
func checkClusterID(path, id string) []Violation {
	switch {
	case id == "" || ValidClusterID(id):
		return nil
	case len(id) > MaxIDLength:
		return []Violation{{Path: path, Rule: RuleMaxLength, Value: shorten(id), Message: fmt.Sprintf(
			"cluster_id %s has %d characters; the limit is %d", quote(id), len(id), MaxIDLength)}}
	}
	return []Violation{{Path: path, Rule: RuleName, Value: id, Message: fmt.Sprintf(
		"cluster_id %q is not a name; use letters, digits, '.', '_' and '-', a letter or digit first and last", id)}}
}

func checkGroupID(path, id string) []Violation {
	switch {
	case id == "" || ValidGroupID(id):
		return nil
	case len(id) > MaxIDLength:
		return []Violation{{Path: path, Rule: RuleMaxLength, Value: shorten(id), Message: fmt.Sprintf(
			"group_id %s has %d characters; the limit is %d", quote(id), len(id), MaxIDLength)}}
	case ValidClusterID(id):
		return []Violation{{Path: path, Rule: RuleName, Value: id, Message: fmt.Sprintf(
			"group_id %q has the form of a uid; choose a name", id)}}
	}
	return []Violation{{Path: path, Rule: RuleName, Value: id, Message: fmt.Sprintf(
		"group_id %q is not a name; use letters, digits, '.', '_' and '-', a letter or digit first and last", id)}}
}

// checkURL reports why a url at path is refused. It is echoed only when it
// holds no password.
func checkURL(path, raw string) []Violation {
	if len(raw) > MaxURLLength {
		return []Violation{{Path: path, Rule: RuleMaxLength, Value: len(raw), Message: fmt.Sprintf(
			"%s has %d characters; the limit is %d", path, len(raw), MaxURLLength)}}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return []Violation{{Path: path, Rule: RuleType, Message: fmt.Sprintf(
			"%s must be an absolute url that begins with http:// or https://", path)}}
	}
	return checkUserInfo(path, u)
}

func checkUserInfo(path string, u *url.URL) []Violation {
	if u.User == nil {
		return nil
	}
	return []Violation{{Path: path, Rule: RuleType, Message: fmt.Sprintf(
		"%s holds a user or password, which everybody who may read the service would see; take it out of the url", path)}}
}
