package definition

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// ReadBack is the fingerprint of a service as OSCAR answers it: sha256:<hex> of
// its canonical JSON without the fields that change by themselves. OSCAR's
// answers are byte-stable over time, restarts and repeated PUTs of one body, but
// for the token (a secret) and the label owner_name, which the first PUT drops;
// volume_status and deployment tell of Kubernetes and not of the definition.
func ReadBack(service map[string]any) (string, error) {
	doc := maps.Clone(service)
	delete(doc, "token")
	delete(doc, "volume_status")
	delete(doc, "deployment")
	if labels, ok := doc["labels"].(map[string]any); ok {
		labels = maps.Clone(labels)
		delete(labels, "owner_name")
		doc["labels"] = labels
	}
	if annotations, ok := doc["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, annotationBuckets)
		doc["annotations"] = annotations
	}
	canonical, err := json.Marshal(doc) // sorts keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// DecodeObject reads a JSON object, with its numbers as they are written.
func DecodeObject(data []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return doc, nil
}

// Difference names the first field in which a read-back is not what was asked,
// or "" when it is. Only what OSCAR returns is compared, and normalised as OSCAR
// does: it fills in defaults, owner and namespace, hides secret values, replaces
// the credentials of its own MinIO, trims paths, and drops what it does not know.
func Difference(asked, got map[string]any) string {
	name, _ := asked["name"].(string)
	origin, worker := originOf(asked)
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		want := asked[key]
		have, returned := got[key]
		if !returned {
			if key == "script" && text(want) != "" && !runsOwnCommand(asked) {
				return key // OSCAR leaves out an empty one
			}
			continue
		}
		same := true
		switch key {
		case "owner", "namespace", "storage_providers", "clusters", "secrets", "vo", "bucket_list",
			"volume", "volume_status", "deployment", "cluster_id":
			// OSCAR's own, hidden, or immutable.
		case "input":
			same = sameJSON(places(want, name, name), places(have, name, name))
		case "output":
			same = sameJSON(places(want, name, origin), places(have, name, origin))
		case "log_level":
			same = logLevel(want) == logLevel(have)
		case "script":
			same = lineEndings(want) == lineEndings(have)
		case "allowed_users":
			if !strings.EqualFold(text(asked["isolation_level"]), oscar.IsolationUser) {
				same = slices.Equal(users(want), users(have))
			}
		case "isolation_level":
			same = text(want) == "" || strings.EqualFold(text(want), text(have))
		case "annotations", "labels":
			same = includes(want, have)
		case "environment":
			if field := environmentDifference(want, have); field != "" {
				return field
			}
		case "federation":
			// That of a worker only says whether its creation makes buckets.
			same = sameKey(want, have, "group_id") && (worker || sameKey(want, have, "topology"))
		default:
			same = covers(want, have)
		}
		if !same {
			return key
		}
	}
	return ""
}

// runsOwnCommand says that the service is exposed and runs its image's command: OSCAR may have emptied its script.
func runsOwnCommand(asked map[string]any) bool {
	expose, _ := asked["expose"].(map[string]any)
	own, _ := expose["default_command"].(bool)
	return own
}

// originOf is the bucket of an output path without one: that of the origin's
// service when both origin annotations are there, as they are for a worker.
func originOf(asked map[string]any) (bucket string, worker bool) {
	annotations, _ := asked["annotations"].(map[string]any)
	service := strings.TrimSpace(text(annotations[oscar.AnnotationOriginService]))
	if service != "" && strings.TrimSpace(text(annotations[oscar.AnnotationOriginCluster])) != "" {
		return service, true
	}
	return text(asked["name"]), false
}

// places are inputs or outputs of a service as OSCAR shows them. bucket is that of a path in minio.default without one.
func places(v any, name, bucket string) []any {
	list, _ := v.([]any)
	out := make([]any, 0, len(list))
	for _, item := range list {
		place, ok := item.(map[string]any)
		if !ok {
			out = append(out, item)
			continue
		}
		place = maps.Clone(place)
		path := strings.Trim(text(place["path"]), " /")
		switch provider, id := oscar.ProviderRef(text(place["storage_provider"])); {
		case strings.Contains(path, "/"):
		case provider == oscar.ProviderMinIO && id == oscar.ProviderDefault:
			path = bucket + "/" + path
		case provider == oscar.ProviderMinIO, provider == oscar.ProviderS3:
			path = name + "/" + path
		}
		place["path"], place["storage_provider"] = path, strings.TrimSpace(text(place["storage_provider"]))
		maps.DeleteFunc(place, func(_ string, v any) bool { return zero(v) })
		out = append(out, place)
	}
	return out
}

func logLevel(v any) string {
	level := strings.ToUpper(text(v))
	switch level {
	case "NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
		return level
	}
	return "INFO"
}

func lineEndings(v any) string {
	return strings.ReplaceAll(strings.ReplaceAll(text(v), "\r\n", "\n"), "\r", "\n")
}

func users(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		if user := strings.TrimSpace(text(item)); user != "" {
			out = append(out, user)
		}
	}
	return out
}

// environmentDifference compares variables, and of secrets the names alone.
func environmentDifference(want, have any) string {
	w, _ := want.(map[string]any)
	h, _ := have.(map[string]any)
	for key, value := range w {
		if strings.EqualFold(key, "variables") {
			variables, _ := h["variables"].(map[string]any)
			asked, _ := value.(map[string]any)
			if len(variables) != len(asked) || !includes(asked, variables) {
				return "environment.variables"
			}
		}
	}
	secrets, _ := w["secrets"].(map[string]any)
	shown, _ := h["secrets"].(map[string]any)
	for name := range secrets {
		if _, ok := shown[name]; !ok {
			return "environment.secrets"
		}
	}
	return ""
}

// includes says whether every string of the map want is in have.
func includes(want, have any) bool {
	w, _ := want.(map[string]any)
	h, _ := have.(map[string]any)
	for key, value := range w {
		if text(h[key]) != text(value) {
			return false
		}
	}
	return true
}

func sameKey(want, have any, key string) bool {
	w, _ := want.(map[string]any)
	h, _ := have.(map[string]any)
	return text(w[key]) == "" || text(w[key]) == text(h[key])
}

// covers says whether have has what want asks for. A zero value asks for
// OSCAR's default, and a key that is not returned cannot be compared.
func covers(want, have any) bool {
	if zero(want) {
		return true
	}
	w, ok := want.(map[string]any)
	if !ok {
		return sameJSON(want, have)
	}
	h, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range w {
		if got, returned := h[key]; returned && !covers(value, got) {
			return false
		}
	}
	return true
}

func zero(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case bool:
		return !x
	case string:
		return x == ""
	case json.Number:
		f, err := x.Float64()
		return err == nil && f == 0
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// sameJSON compares values; numbers by what they are worth.
func sameJSON(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false
		}
		f, errX := strconv.ParseFloat(x.String(), 64)
		g, errY := strconv.ParseFloat(y.String(), 64)
		return x == y || errX == nil && errY == nil && f == g
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameJSON)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, sameJSON)
	}
	return a == b
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
