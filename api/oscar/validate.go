package oscar

import (
	_ "crypto/sha256" // of digests in images
	_ "crypto/sha512" // and sha384
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Validate reports everything that is wrong with a service, all at once: what
// OSCAR, Kubernetes or MinIO would refuse, and what a federation cannot be. It
// does not know which clusters exist; package topology adds that. Secrets are
// never in a violation.
func Validate(s *Service) []Violation { return LimitViolations(Violations(s)) }

// Violations is Validate without a limit, for what is compared.
func Violations(s *Service) []Violation {
	if s == nil {
		return []Violation{{Rule: RuleRequired, Message: "there is no service"}}
	}
	var vs []Violation
	add := func(more ...Violation) { vs = append(vs, more...) }

	add(checkServiceName("name", s.Name)...)
	add(checkClusterID("cluster_id", s.ClusterID)...)
	add(checkRequired(s)...)
	add(checkResources(s)...)
	add(checkWords(s)...)
	add(checkEnvironment(s)...)
	add(checkAnnotations(s)...)
	add(checkAccess(s)...)
	add(checkStorage(s)...)
	add(checkVolume(s)...)
	add(checkKserve(s)...)
	add(checkFederation(s)...)
	add(checkSharedBuckets(s)...)
	add(checkBounds(s)...)
	add(slices.DeleteFunc(checkKept(s), func(v Violation) bool { // one that is refused already is told once
		return slices.ContainsFunc(vs, func(o Violation) bool { return o.Path == v.Path })
	})...)
	add(checkSize(s)...)
	return s.withoutFaults(vs)
}

// withoutFaults drops what follows from a wrong type that was reported when the
// service was parsed.
func (s *Service) withoutFaults(vs []Violation) []Violation {
	if len(s.faults) == 0 {
		return vs
	}
	out := vs[:0]
	for _, v := range vs {
		if !s.faulty(v.Path) {
			out = append(out, v)
		}
	}
	return out
}

func (s *Service) faulty(path string) bool {
	for _, fault := range s.faults {
		if len(fault) == len(path) && strings.EqualFold(fault, path) {
			return true
		}
		if len(path) > len(fault) && strings.EqualFold(path[:len(fault)], fault) && (path[len(fault)] == '.' || path[len(fault)] == '[') {
			return true
		}
	}
	return false
}

// faultBelow says whether something at or below path had a wrong type.
func (s *Service) faultBelow(path string) bool {
	for _, fault := range s.faults {
		if len(fault) >= len(path) && strings.EqualFold(fault[:len(path)], path) {
			return true
		}
	}
	return false
}

func checkRequired(s *Service) []Violation {
	vs := checkImage(s)
	if s.Script == "" {
		vs = append(vs, Violation{Path: "script", Rule: RuleRequired, Message: "script is missing; give the text of the user's script"})
	}
	return vs
}

// checkImage refuses an image that a kubelet cannot pull: it reads the reference by the same function, and the API of
// Kubernetes reads none. What a node of interLink takes for an image is its own affair.
func checkImage(s *Service) []Violation {
	if strings.TrimSpace(s.Image) == "" {
		return []Violation{{Path: "image", Rule: RuleRequired, Message: "image is missing; name the container image that runs the script"}}
	}
	if s.InterlinkNodeName != "" {
		return nil
	}
	if _, err := reference.ParseNormalizedNamed(s.Image); err != nil {
		return []Violation{{Path: "image", Rule: RuleName, Value: shorten(s.Image), Message: fmt.Sprintf(
			"image %s is none that Kubernetes can pull; write it as in ghcr.io/grycap/imagemagick:7.1, its name in lower case", quote(s.Image))}}
	}
	return nil
}

func checkSize(s *Service) []Violation {
	var vs []Violation
	if len(s.Script) > MaxScriptBytes {
		vs = append(vs, Violation{Path: "script", Rule: RuleMaxBytes, Value: len(s.Script), Message: fmt.Sprintf(
			"the script has %d bytes; the limit is %d; put large files into the image or the input bucket", len(s.Script), MaxScriptBytes)})
	}
	if size := len(mustEncode(s)); size > MaxServiceBytes {
		vs = append(vs, Violation{Rule: RuleMaxBytes, Value: size, Message: fmt.Sprintf(
			"the service has %d bytes; the limit is %d", size, MaxServiceBytes)})
	}
	return vs
}

func checkResources(s *Service) []Violation {
	var vs []Violation
	for _, q := range []struct{ path, value, example string }{
		{"cpu", s.CPU, `"0.5" or "500m"`},
		{"memory", s.Memory, `"256Mi" or "0.5Gi"`},
		{"total_cpu", s.TotalCPU, `"2" or "500m"`},
		{"total_memory", s.TotalMemory, `"1Gi"`},
		{"ephemeral_storage_request", s.EphemeralStorageRequest, `"1Gi"`},
	} {
		vs = append(vs, checkQuantity(q.path, q.value, q.example)...)
	}
	return vs
}

// maxQuantityLength keeps exponents out of the parser that would take it long
// to expand; no real quantity is longer.
const maxQuantityLength = 24

func checkQuantity(path, value, example string) []Violation {
	if value == "" {
		return nil
	}
	bad := func(why string) []Violation {
		return []Violation{{Path: path, Rule: RuleQuantity, Value: shorten(value), Message: fmt.Sprintf(
			"%s %s %s; write it as Kubernetes does, as in %s", path, quote(value), why, example)}}
	}
	if len(value) > maxQuantityLength || longExponent(value) {
		return bad("is not a usable quantity")
	}
	q, err := resource.ParseQuantity(value)
	switch {
	case err != nil:
		return bad("is not a quantity")
	case q.Sign() < 0:
		return bad("is negative")
	}
	return nil
}

// longExponent finds e123: more than two digits of exponent.
func longExponent(value string) bool {
	at := strings.IndexAny(value, "eE")
	return at >= 0 && len(strings.TrimLeft(value[at+1:], "+-0")) > 2
}

func checkWords(s *Service) []Violation {
	var vs []Violation
	vs = append(vs, oneOf("visibility", s.Visibility, VisibilityPrivate, VisibilityPublic, VisibilityRestricted)...)
	// OSCAR takes an unknown isolation level for SERVICE: all users would share one bucket.
	if level := strings.ToUpper(s.IsolationLevel); level != IsolationService && level != IsolationUser {
		vs = append(vs, oneOf("isolation_level", s.IsolationLevel, IsolationService, IsolationUser)...)
	}
	return vs
}

// oneOf refuses a word that is given and not known. The name in the message is
// the last part of the path.
func oneOf(path, value string, words ...string) []Violation {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	return []Violation{{Path: path, Rule: RuleOneOf, Value: shorten(value), Message: fmt.Sprintf(
		"%s %s is unknown; use %s", name, quote(value), wordList(words...))}}
}

func checkEnvironment(s *Service) []Violation {
	var vs []Violation
	for _, key := range sortedKeys(s.Environment.Variables) {
		if errs := validation.IsRelaxedEnvVarName(key); len(errs) > 0 {
			vs = append(vs, Violation{Path: joinPath("environment.variables", key), Rule: RuleName, Value: shorten(key), Message: fmt.Sprintf(
				"the name of the variable %s is refused by Kubernetes: %s", quote(key), errs[0])})
		}
	}
	for _, key := range sortedKeys(s.Environment.Secrets) {
		if errs := validation.IsConfigMapKey(key); len(errs) > 0 {
			vs = append(vs, Violation{Path: joinPath("environment.secrets", key), Rule: RuleName, Value: shorten(key), Message: fmt.Sprintf(
				"the name of the secret %s is refused by Kubernetes: use letters, digits, '-', '_' and '.'", quote(key))})
		}
	}
	return vs
}

func checkAnnotations(s *Service) []Violation {
	var vs []Violation
	size := 0
	for _, key := range sortedKeys(s.Annotations) {
		size += len(key) + len(s.Annotations[key])
		if errs := validation.IsQualifiedName(strings.ToLower(key)); len(errs) > 0 {
			vs = append(vs, Violation{Path: joinPath("annotations", key), Rule: RuleName, Value: shorten(key), Message: fmt.Sprintf(
				"the annotation %s is refused by Kubernetes: %s", quote(key), errs[0])})
		}
	}
	if size > MaxAnnotationsBytes {
		vs = append(vs, Violation{Path: "annotations", Rule: RuleMaxBytes, Value: size, Message: fmt.Sprintf(
			"the annotations have %d bytes; the limit is %d, or Kubernetes would refuse every job", size, MaxAnnotationsBytes)})
	}
	return append(vs, CheckLabels(s.Labels)...)
}

// CheckLabels says which labels Kubernetes refuses: a selector could not name them either.
func CheckLabels(labels map[string]string) []Violation {
	var vs []Violation
	for _, key := range sortedKeys(labels) {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			vs = append(vs, Violation{Path: joinPath("labels", key), Rule: RuleName, Value: shorten(key), Message: fmt.Sprintf(
				"the label %s is refused by Kubernetes: %s", quote(key), errs[0])})
		}
		if errs := validation.IsValidLabelValue(labels[key]); len(errs) > 0 {
			vs = append(vs, Violation{Path: joinPath("labels", key), Rule: RuleName, Value: shorten(labels[key]), Message: fmt.Sprintf(
				"the value %s of label %s is refused by Kubernetes: %s", quote(labels[key]), quote(key), errs[0])})
		}
	}
	return vs
}

// minIsolatedUser is how many characters of a user OSCAR cuts off to name his
// bucket; it crashes on a shorter one.
const minIsolatedUser = 10

func checkAccess(s *Service) []Violation {
	vs := checkLength("allowed_users", len(s.AllowedUsers), MaxAllowedUsers)
	if !strings.EqualFold(s.IsolationLevel, IsolationUser) {
		return vs
	}
	if n := len(inputBuckets(s, s.Name)) * len(s.AllowedUsers); n > MaxPrivateBuckets {
		vs = append(vs, Violation{Path: "isolation_level", Rule: RuleMaxLength, Value: n, Message: fmt.Sprintf(
			"isolation_level USER makes a bucket for each input and user, up to %d of them; the limit is %d; name fewer users or inputs", n, MaxPrivateBuckets)})
	}
	for i, user := range s.AllowedUsers {
		if user = strings.TrimSpace(user); user != "" && len(user) < minIsolatedUser {
			vs = append(vs, Violation{Path: indexPath("allowed_users", i), Rule: RuleName, Value: user, Message: fmt.Sprintf(
				"user %q has fewer than %d characters, from which OSCAR names his bucket under isolation_level USER; give the full user id", user, minIsolatedUser)})
		}
	}
	return vs
}

func checkVolume(s *Service) []Violation {
	v := s.Volume
	if v == nil {
		return nil
	}
	var vs []Violation
	if path := strings.TrimSpace(v.MountPath); path == "" {
		vs = append(vs, Violation{Path: "volume.mount_path", Rule: RuleRequired, Message: "volume.mount_path is missing; give an absolute path inside the container"})
	} else if !strings.HasPrefix(path, "/") {
		vs = append(vs, Violation{Path: "volume.mount_path", Rule: RuleName, Value: shorten(path), Message: fmt.Sprintf("volume.mount_path %s is not absolute; begin it with /", quote(path))})
	}
	name, size := strings.TrimSpace(v.Name), strings.TrimSpace(v.Size)
	if name == "" && size == "" {
		vs = append(vs, Violation{Path: "volume.name", Rule: RuleRequired, Message: "volume.name is missing; name an existing volume, or give volume.size to make one"})
	}
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		vs = append(vs, Violation{Path: "volume.name", Rule: RuleName, Value: shorten(name), Message: fmt.Sprintf("volume.name %s is refused by Kubernetes; use lower-case letters, digits and '-'", quote(name))})
	}
	vs = append(vs, checkQuantity("volume.size", size, `"1Gi"`)...)
	vs = append(vs, oneOf("volume.lifecycle_policy", strings.TrimSpace(v.LifecyclePolicy), "delete", "retain")...)
	return vs
}

func checkKserve(s *Service) []Violation {
	k := s.Kserve
	if k == nil {
		return nil
	}
	var vs []Violation
	missing := func(path string) {
		vs = append(vs, Violation{Path: path, Rule: RuleRequired, Message: path + " is missing; OSCAR refuses a kserve block without it"})
	}
	if strings.TrimSpace(k.Type) == "" {
		missing("kserve.type")
	}
	if strings.TrimSpace(k.StorageURI) == "" {
		missing("kserve.storage_uri")
	}
	if k.Inference != nil && strings.TrimSpace(k.Inference.ModelFormat) == "" {
		missing("kserve.inference.model_format")
	}
	return vs
}
