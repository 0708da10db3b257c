// Package deploy_test holds the charts, alerts and dashboards to what they speak of:
// the daemons' flags and metrics, Kubernetes' API, and each other.
package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	yamlutil "sigs.k8s.io/yaml"
)

// toolTimeout is generous: a tool may have to be built first.
const toolTimeout = 14 * time.Minute

// tool builds a tool of tools/*.mod, the first time, and says where it is.
func tool(t *testing.T, name string) string {
	t.Helper()
	out, err := run(t, "../tools/tool.sh", name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// run answers what a command says on standard output; its error has the rest.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// What this user configured for himself says nothing about the charts.
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	if err := cmd.Run(); err != nil {
		return stdout.String(), errors.Join(err, errors.New(stderr.String()))
	}
	return stdout.String(), nil
}

// Release and namespace that the charts are rendered for.
const (
	release   = "fed"
	namespace = "federation"
)

// chartOf is the chart that a file of values is for: the longest name it begins with.
func chartOf(values string) string {
	if strings.HasPrefix(filepath.Base(values), "oscar-syncer") {
		return "oscar-syncer"
	}
	return "oscarfed"
}

// manifest is a rendered chart.
type manifest struct {
	values string
	chart  string
	text   string
	// objects of the kinds that Kubernetes has itself.
	objects []runtime.Object
	// custom are those of other kinds, as they stand in the text.
	custom []map[string]any
}

// manifests renders the charts with each file of values of testdata.
func manifests(t *testing.T) []manifest {
	t.Helper()
	seeCharts(t)
	helm := tool(t, "helm")
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values to render: %v", err)
	}
	var out []manifest
	for _, file := range files {
		out = append(out, render(t, helm, file, release, namespace))
	}
	return out
}

// seeCharts reads what helm will read: the go command runs a test again when a file
// that the test itself has read is another.
func seeCharts(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func render(t *testing.T, helm, file, release, namespace string, more ...string) manifest {
	t.Helper()
	m := manifest{values: filepath.Base(file), chart: chartOf(file)}
	text, err := run(t, helm, append([]string{"template", release, "helm/" + m.chart, "--namespace", namespace, "--values", file}, more...)...)
	if err != nil {
		t.Fatalf("%s: %v", m.values, err)
	}
	m.read(t, text)
	return m
}

// decode reads a manifest that is not rendered.
func decode(t *testing.T, file string) manifest {
	t.Helper()
	m := manifest{values: file}
	read(t, file, func(data []byte) error { m.read(t, string(data)); return nil })
	return m
}

// read decodes the documents of a text. Strictly: a field that Kubernetes does not know
// is an error.
func (m *manifest) read(t *testing.T, text string) {
	t.Helper()
	m.text = text
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", m.values, err)
		}
		var fields map[string]any
		if err := yamlutil.UnmarshalStrict(document, &fields); err != nil {
			t.Fatalf("%s: %v in\n%s", m.values, err, document)
		}
		if len(fields) == 0 {
			continue
		}
		object, _, err := strict.Decode(document, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err):
			m.custom = append(m.custom, fields)
		case err != nil:
			t.Errorf("%s: %v in\n%s", m.values, err, document)
		default:
			m.objects = append(m.objects, object)
		}
	}
	if len(m.objects) == 0 {
		t.Fatalf("%s: there is nothing in it", m.values)
	}
}

// of are the objects of one kind.
func of[T runtime.Object](m manifest) []T {
	var out []T
	for _, o := range m.objects {
		if o, ok := o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// only is the one object of a kind.
func only[T runtime.Object](t *testing.T, m manifest) T {
	t.Helper()
	all := of[T](m)
	if len(all) != 1 {
		var kind T
		t.Fatalf("%s: there are %d %T", m.values, len(all), kind)
	}
	return all[0]
}
