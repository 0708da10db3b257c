package oscar

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// FDL is a file in the Functions Definition Language.
type FDL struct {
	Functions        []Function
	StorageProviders *StorageProviders
	Clusters         map[string]ClusterCredential
}

// Function is one service of an FDL.
type Function struct {
	// Cluster that the service is for: the key above it, else its cluster_id,
	// else empty.
	Cluster string
	// ClusterKey says that a key named the cluster.
	ClusterKey bool
	// Path of the service in the file, as in functions.oscar[0].oscar-cluster-a, and its line.
	Path string
	Line int
	// ScriptFile is the path of a file, relative to the FDL, that the script of the service names: the
	// reader of the FDL puts the file's text there. It is empty when the script is the text itself.
	ScriptFile string
	Service    *Service
}

// ParseFDL reads an FDL. Each entry of functions.oscar is either a service below
// the id of its cluster (several ids give several services), or the service
// itself. default-cluster as an id means none. The file's storage_providers and
// clusters are copied into each service, whose own entries win.
//
// Numbers and booleans are read as text where a string is wanted. Wrong types are
// reported all at once, with the path in the file; what is no YAML or beyond the
// limits (MaxServiceBytes, MaxDepth, aliases that multiply) is one violation and a
// nil FDL. Use Validate on each service.
func ParseFDL(data []byte) (*FDL, []Violation) {
	root, violation := parseYAML(data, "the FDL")
	if violation != nil {
		return nil, []Violation{*violation}
	}
	if root.kind != kindObject {
		return nil, []Violation{{Rule: RuleType, Message: fmt.Sprintf("the FDL must be a mapping that begins with functions:, not %s", root.kind)}}
	}
	d := decoder{text: true}
	fdl := &FDL{}
	for _, part := range []struct {
		key string
		dst any
	}{{"storage_providers", &fdl.StorageProviders}, {"clusters", &fdl.Clusters}} {
		if v := root.field(part.key); v != nil {
			d.into(part.key, v, reflect.ValueOf(part.dst).Elem())
		}
	}
	violations := d.violations
	list, missing := functionList(root)
	if missing != nil {
		return fdl, append(violations, *missing)
	}
	for i, item := range list.items {
		functions, more := functionsOf(indexPath("functions.oscar", i), item)
		violations = append(violations, more...)
		fdl.Functions = append(fdl.Functions, functions...)
	}
	for i := range fdl.Functions {
		s := fdl.Functions[i].Service
		s.StorageProviders = fillProviders(s.StorageProviders, fdl.StorageProviders)
		s.Clusters = fill(s.Clusters, fdl.Clusters)
		for _, v := range d.violations {
			s.faults = append(s.faults, v.Path)
		}
	}
	return fdl, LimitViolations(violations)
}

func functionList(root *value) (*value, *Violation) {
	functions := root.field("functions")
	if functions == nil || functions.kind == kindNull {
		return nil, &Violation{Path: "functions", Rule: RuleRequired, Message: "functions is missing; an FDL holds its services in functions.oscar"}
	}
	if functions.kind != kindObject {
		return nil, &Violation{Path: "functions", Rule: RuleType, Message: fmt.Sprintf("functions must be a mapping, not %s", functions.kind)}
	}
	list := functions.field("oscar")
	switch {
	case list == nil || list.kind == kindNull || list.kind == kindArray && len(list.items) == 0:
		return nil, &Violation{Path: "functions.oscar", Rule: RuleRequired, Message: "functions.oscar is missing or empty; list at least one service in it"}
	case list.kind != kindArray:
		return nil, &Violation{Path: "functions.oscar", Rule: RuleType, Message: fmt.Sprintf("functions.oscar must be a list, not %s; begin each service with '- '", list.kind)}
	}
	return list, nil
}

// functionsOf reads one entry of functions.oscar in either form: a scalar under
// name tells a service from a cluster that is called name.
func functionsOf(path string, item *value) ([]Function, []Violation) {
	if item.kind != kindObject {
		return nil, []Violation{{Path: path, Rule: RuleType, Message: fmt.Sprintf("%s must be a mapping of cluster ids to services, or a service, not %s", path, item.kind)}}
	}
	if name := item.field("name"); name != nil && name.kind != kindObject {
		s, violations := serviceOf(path, item, true)
		return []Function{{Cluster: s.ClusterID, Path: path, Line: item.line, ScriptFile: scriptFile(item, s), Service: s}}, violations
	}
	if len(item.fields) == 0 {
		return nil, []Violation{{Path: path, Rule: RuleRequired, Message: path + " is empty; give the id of a cluster and its service"}}
	}
	var functions []Function
	var violations []Violation
	for _, f := range item.fields {
		at := joinPath(path, f.key)
		if f.value.kind != kindObject {
			violations = append(violations, Violation{Path: at, Rule: RuleType, Message: fmt.Sprintf(
				"%s must be a service, not %s; give the id of a cluster with a service below it, or a service with its name", at, f.value.kind)})
			continue
		}
		s, more := serviceOf(at, f.value, true)
		violations = append(violations, more...)
		function := Function{Cluster: s.ClusterID, Path: at, Line: f.value.line, ScriptFile: scriptFile(f.value, s), Service: s}
		if f.key != DefaultClusterKey {
			function.Cluster, function.ClusterKey = f.key, true
			s.ClusterID = f.key
		}
		functions = append(functions, function)
	}
	return functions, violations
}

// scriptFile is the path that the script of a service names. A block scalar is the text itself, also
// one of a single line: so there is a form in which no text is taken for a path.
func scriptFile(v *value, s *Service) string {
	if script := v.field("script"); script == nil || script.block || strings.Contains(s.Script, "\n") {
		return ""
	}
	return s.Script
}

func fillProviders(own, common *StorageProviders) *StorageProviders {
	if common == nil {
		return own
	}
	out := StorageProviders{}
	if own != nil {
		out = *own
	}
	out.S3 = fill(out.S3, common.S3)
	out.MinIO = fill(out.MinIO, common.MinIO)
	out.Onedata = fill(out.Onedata, common.Onedata)
	out.WebDAV = fill(out.WebDAV, common.WebDAV)
	out.Rucio = fill(out.Rucio, common.Rucio)
	out.Extra = fill[Extra, json.RawMessage](out.Extra, common.Extra)
	return &out
}

// fill copies into own what only common has. Neither shares anything with the
// result that is ever changed.
func fill[M ~map[string]V, V any](own, common M) M {
	if len(common) == 0 {
		return own
	}
	out := clone(common)
	maps.Copy(out, own)
	return out
}
