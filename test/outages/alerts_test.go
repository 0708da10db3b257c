//go:build linux

package outages_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// scrapeInterval is the time between two scrapes, scrapeTimeout how long one may take.
	scrapeInterval = 2 * time.Second
	scrapeTimeout  = time.Second
	// goesOn is how much longer the fault lasts for the alerts, as it was in the end: many wait for minutes.
	goesOn = 20 * time.Minute
	// slope is the part of the end by which counters and clocks go on.
	slope = 10
)

// absolute are metrics that tell a time. In a test of rules time begins at 0.
var absolute = []string{"oscarfed_clock_seconds", "oscarfed_syncer_certificate_end_seconds", "oscarfed_server_certificate_end_seconds"}

// scrapes are what a Prometheus would have, from all targets.
type scrapes struct {
	t       *testing.T
	began   time.Time
	targets map[string][2]string

	mu sync.Mutex
	// rounds is the number of scrapes of each target, series its values by round.
	rounds int
	series map[string]map[int]float64
}

// scrape scrapes until ctx ends, and then tells what it has.
func (s *scene) scrape(ctx context.Context) (wait func() *scrapes) {
	out := &scrapes{t: s.t, began: time.Now(), targets: s.targets(), series: map[string]map[int]float64{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(scrapeInterval)
		defer tick.Stop()
		for {
			out.round()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() *scrapes {
		<-done
		return out
	}
}

func (s *scrapes) round() {
	var all sync.WaitGroup
	for address, target := range s.targets {
		all.Go(func() {
			labels := fmt.Sprintf("job=%q, instance=%q", target[0], target[1])
			families, err := get(address)
			up := 1.0
			if err != nil {
				up = 0
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.note("up{"+labels+"}", up)
			for name, family := range families {
				if strings.HasPrefix(name, "oscarfed_") {
					s.family(name, labels, family)
				}
			}
		})
	}
	all.Wait()
	s.rounds++
}

func (s *scrapes) note(series string, value float64) {
	if s.series[series] == nil {
		s.series[series] = map[int]float64{}
	}
	s.series[series][s.rounds] = value
}

func (s *scrapes) family(name, labels string, family *dto.MetricFamily) {
	for _, m := range family.Metric {
		own := labels
		for _, l := range m.Label {
			own += fmt.Sprintf(", %s=%q", l.GetName(), l.GetValue())
		}
		switch {
		case m.Histogram != nil:
			s.note(name+"_sum{"+own+"}", m.Histogram.GetSampleSum())
			s.note(name+"_count{"+own+"}", float64(m.Histogram.GetSampleCount()))
		case m.Counter != nil:
			s.note(name+"{"+own+"}", m.Counter.GetValue())
		case m.Gauge != nil:
			value := m.Gauge.GetValue()
			if slices.Contains(absolute, name) && value != 0 {
				value -= float64(s.began.UnixMilli()) / 1000
			}
			s.note(name+"{"+own+"}", value)
		}
	}
}

func get(address string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(resp.Body, 16<<20))
}

// values are those of one series as promtool reads them: what was scraped, and then the fault that goes on.
func (s *scrapes) values(series string, of map[int]float64) string {
	var out []string
	scraped := false
	for round := range s.rounds {
		value, ok := of[round]
		switch {
		case ok:
			out = append(out, number(value))
		case scraped:
			out = append(out, "stale")
		default:
			out = append(out, "_")
		}
		scraped = ok
	}
	last, ok := of[s.rounds-1]
	if !ok {
		return strings.Join(out, " ")
	}
	step := 0.0
	counts := strings.Contains(series, "_total{") || strings.Contains(series, "_sum{") || strings.Contains(series, "_count{") ||
		strings.HasPrefix(series, "oscarfed_clock_seconds{")
	if before, ok := of[s.rounds-1-slope]; ok && counts {
		step = (last - before) / slope
	}
	if counts {
		return strings.Join(append(out, fmt.Sprintf("%s+%sx%d", number(last+step), number(step), int(goesOn/scrapeInterval))), " ")
	}
	// What goes up and down goes on to do so.
	cycle := []float64{last}
	for k := 1; k < slope; k++ {
		if value, ok := of[s.rounds-1-k]; ok {
			cycle = append(cycle, value)
		}
	}
	for k := range int(goesOn / scrapeInterval) {
		out = append(out, number(cycle[k%len(cycle)]))
	}
	return strings.Join(out, " ")
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// fired wants that just these alerts fire in the end; others may as well.
func (s *scrapes) fired(alerts, others []string) {
	s.t.Helper()
	rules, err := filepath.Abs("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%s]\nevaluation_interval: %s\ntests:\n  - interval: %s\n    input_series:\n", rules, 30*time.Second, scrapeInterval)
	for _, series := range slices.Sorted(maps.Keys(s.series)) {
		fmt.Fprintf(&text, "      - {series: '%s', values: '%s'}\n", strings.ReplaceAll(series, "'", "''"), s.values(series, s.series[series]))
	}
	fmt.Fprintf(&text, "    promql_expr_test:\n      - expr: 'group by (alertname) (ALERTS{alertstate=\"firing\", alertname!~\"%s\"})'\n        eval_time: %s\n",
		strings.Join(others, "|"), goesOn)
	text.WriteString("        exp_samples:\n")
	for _, name := range alerts {
		fmt.Fprintf(&text, "          - {labels: '{alertname=%q}', value: 1}\n", name)
	}
	file := filepath.Join(s.t.TempDir(), "fired.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	tool, err := exec.CommandContext(s.t.Context(), "../../tools/tool.sh", "promtool").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.CommandContext(s.t.Context(), strings.TrimSpace(string(tool)), "test", "rules", file).CombinedOutput()
	if err != nil {
		s.t.Errorf("the alerts: %v\n%s", err, out)
	}
}
