package deploy_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rules are groups of Prometheus rules.
type rules struct {
	Groups []group `json:"groups"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var r rules
	read(t, "prometheus/alerts.yaml", func(data []byte) error { return yaml.UnmarshalStrict(data, &r) })
	var out []rule
	for _, g := range r.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("there are no alerts")
	}
	return out
}

// Prometheus evaluates the alerts over the series of alerts_test.yaml, where each
// fires at one time and is silent at another.
func TestAlertsFire(t *testing.T) {
	promtool := tool(t, "promtool")
	if out, err := run(t, promtool, "check", "rules", "--lint=all", "--lint-fatal", "prometheus/alerts.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(t, promtool, "test", "rules", "prometheus/alerts_test.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	var cases struct {
		Tests []struct {
			Alerts []struct {
				Name     string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	read(t, "prometheus/alerts_test.yaml", func(data []byte) error { return yaml.Unmarshal(data, &cases) })
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range cases.Tests {
		for _, a := range c.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf("%s: is seen to fire: %v, to be silent: %v", a.Alert, fires[a.Alert], silent[a.Alert])
		}
	}
}

// What to do about an alert is found under its name, and nothing is said of alerts
// that do not exist.
func TestEveryAlertHasARunbook(t *testing.T) {
	const page = "../docs/operations.md"
	var text string
	read(t, page, func(data []byte) error { text = string(data); return nil })
	written := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Oscarfed\w+)$`).FindAllStringSubmatch(text, -1) {
		written[m[1]] = true
	}
	for _, a := range alerts(t) {
		if !written[a.Alert] {
			t.Errorf("%s says nothing of %s", page, a.Alert)
		}
		delete(written, a.Alert)
		url := a.Annotations["runbook_url"]
		if want := "https://github.com/oscarfed/oscarfed/blob/main/docs/operations.md#" + strings.ToLower(a.Alert); url != want {
			t.Errorf("%s: runbook %q, not %q", a.Alert, url, want)
		}
		if a.Annotations["summary"] == "" || a.Labels["severity"] == "" {
			t.Errorf("%s has no summary or severity", a.Alert)
		}
	}
	for name := range written {
		t.Errorf("%s speaks of %s, which is no alert", page, name)
	}
}

// queries are the expressions of the dashboard, with Grafana's variables filled in.
func queries(t *testing.T) []string {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Type    string `json:"type"`
			ID      int    `json:"id"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	read(t, "grafana/oscarfed.json", func(data []byte) error { return json.Unmarshal(data, &d) })
	var out []string
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			out = append(out, strings.NewReplacer("$__rate_interval", "5m", "$syncer", ".*").Replace(target.Expr))
		}
	}
	if len(out) == 0 {
		t.Fatal("the dashboard asks nothing")
	}
	return out
}

// Prometheus takes what the dashboard asks.
func TestTheDashboardAsksWhatPrometheusUnderstands(t *testing.T) {
	promtool := tool(t, "promtool")
	var r rules
	g := group{Name: "dashboard"}
	for _, q := range queries(t) {
		if strings.Contains(q, "$") {
			t.Errorf("a variable is left in %q", q)
		}
		g.Rules = append(g.Rules, rule{Record: "dashboard:query", Expr: q})
	}
	r.Groups = append(r.Groups, g)
	data, err := yaml.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, promtool, "check", "rules", "--lint=none", file); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A certificate whose end the dashboard does not show ends unseen.
func TestTheDashboardShowsWhenEachCertificateEnds(t *testing.T) {
	asked, found := strings.Join(queries(t), "\n"), 0
	for name := range metricsOfTheCode(t) {
		if !strings.HasSuffix(name, "_certificate_end_seconds") {
			continue
		}
		if found++; !strings.Contains(asked, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	if found == 0 {
		t.Error("no metric says when a certificate ends")
	}
}

// An alert on a metric that is called otherwise never fires. The labels are those that
// docs/reference.md lists.
func TestAlertsAndDashboardSpeakOfMetricsThatExist(t *testing.T) {
	exist := metricsOfTheCode(t)
	labels := labelsOfTheDocs(t)
	var expressions []string
	for _, a := range alerts(t) {
		expressions = append(expressions, a.Expr)
	}
	expressions = append(expressions, queries(t)...)
	foreign := map[string]bool{"up": true, "go_goroutines": true, "process_resident_memory_bytes": true, "process_cpu_seconds_total": true}
	metric := regexp.MustCompile(`\b((?:oscarfed|go|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	found := 0
	for _, e := range expressions {
		for _, m := range metric.FindAllStringSubmatch(e, -1) {
			name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
			if foreign[name] {
				continue
			}
			found++
			if !exist[name] {
				t.Errorf("%s does not exist; it is in %s", name, e)
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if label := l[1]; label != "job" && label != "instance" && !labels[name][label] {
					t.Errorf("%s has no label %s; it is in %s", name, label, e)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no metric was looked for")
	}
}

// metricsOfTheCode are the names that the daemons' metrics have.
func metricsOfTheCode(t *testing.T) map[string]bool {
	t.Helper()
	name := regexp.MustCompile(`Name:\s+"(oscarfed_[a-z_]+)"`)
	found := map[string]bool{}
	for _, root := range []string{"../api", "../controlplane", "../store", "../syncer", "../internal"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range name.FindAllStringSubmatch(string(data), -1) {
				found[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// labelsOfTheDocs are the labels of each metric.
func labelsOfTheDocs(t *testing.T) map[string]map[string]bool {
	t.Helper()
	var text string
	read(t, "../docs/reference.md", func(data []byte) error { text = string(data); return nil })
	word := regexp.MustCompile("`([a-z_]+)`")
	found := map[string]map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^- `(oscarfed_[a-z_]+)`(?: \\(([^)]*)\\))?:").FindAllStringSubmatch(text, -1) {
		found[m[1]] = map[string]bool{}
		for _, label := range word.FindAllStringSubmatch(m[2], -1) {
			found[m[1]][label[1]] = true
		}
	}
	return found
}
