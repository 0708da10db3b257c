package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
)

func TestAPageNamesTheNextOne(t *testing.T) {
	c := newClient(t, &fake{next: "token", audit: []v1.AuditEntry{}})
	for _, path := range []string{"/system/services", "/system/federations", "/system/replicas", "/system/audit"} {
		resp := c.do("GET", path+"?limit=1", "")
		if resp.StatusCode != 200 || resp.Header.Get("Oscarfed-Continue") != "token" {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, resp.Header)
		}
	}
	f := &fake{}
	resp := newClient(t, f).do("GET", "/system/federations?limit=7&continue=x&label=a+in+(b,c),!d&phase=ready&phase=degraded&cluster_id=a&owner=ann", "")
	q, ok := f.only(t).args.(listing.Query)
	if resp.StatusCode != 200 || resp.Header.Get("Oscarfed-Continue") != "" || !ok || q.Limit != 7 || q.Continue != "x" || q.ClusterID != "a" || q.Owner != "ann" ||
		strings.Join(q.Phases, " ") != "ready degraded" || q.Labels.String() != "a in (b,c),!d" {
		t.Errorf("%d: asked for %+v", resp.StatusCode, q)
	}
}

func TestNonsenseInAListIsRefusedWithWords(t *testing.T) {
	for _, list := range []string{"/system/federations", "/system/services", "/system/replicas", "/system/clusters"} {
		for _, query := range []string{
			"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=1e2", "limit=99999999999999999999", "label=a%20b", "label=(", "label=" + strings.Repeat("a,", 600),
			"continue=" + strings.Repeat("A", listing.MaxToken+1),
		} {
			f := &fake{}
			resp := newClient(t, f).do("GET", list+"?"+query, "", "Accept", problemType)
			p := problemOf(t, resp)
			if resp.StatusCode != 400 || f.count() != 0 || len(p.Violations) != 1 || p.Violations[0].Message == "" {
				t.Errorf("%s?%.40s: %d, %+v", list, query, resp.StatusCode, p)
			}
		}
	}
}

// TestAWordThatNothingHasIsRefused: a filter with it matched nothing, and its answer looked like that of an empty store.
func TestAWordThatNothingHasIsRefused(t *testing.T) {
	for path, status := range map[string]int{
		"/system/federations?phase=redy":            400,
		"/system/services?phase=redy":               400,
		"/system/replicas?phase=redy":               400,
		"/system/watch?phase=redy":                  400,
		"/system/clusters?state=ready":              400,
		"/system/audit?before=yesterday":            400,
		"/system/federations?phase=rolled_back":     200,
		"/system/replicas?phase=wedged":             200,
		"/system/clusters?state=cordoned":           200,
		"/system/audit?before=" + uuid.Max.String(): 200,
	} {
		resp := newClient(t, &fake{audit: []v1.AuditEntry{}}).do("GET", path, "", "Accept", problemType)
		if resp.StatusCode != status {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, status)
		}
	}
}

func TestARevisionThatIsGoneIsAnswered410(t *testing.T) {
	c := newClient(t, &fake{err: &fault.Error{Code: fault.CodeExpired, Message: "gone", Continue: "on"}})
	for _, list := range []string{"/system/federations", "/system/services", "/system/replicas", "/system/clusters", "/system/audit"} {
		resp := c.do("GET", list+"?continue=x", "", "Accept", problemType)
		if p := problemOf(t, resp); resp.StatusCode != 410 || p.Code != "expired" || resp.Header.Get("Oscarfed-Continue") != "on" {
			t.Errorf("%s: %d %+v %v", list, resp.StatusCode, p, resp.Header)
		}
	}
}

// servicesOf has the use cases that manyServices does not have itself.
type servicesOf struct{ server.Services }

// manyServices gives one service again and again.
type manyServices struct {
	servicesOf
	n   int
	one *oscar.Service
}

func (m manyServices) Services(context.Context, identity.Caller, listing.Query, bool) (*listing.Page[federations.ListedService], error) {
	return &listing.Page[federations.ListedService]{Each: func(fn func(federations.ListedService) error) error {
		for range m.n {
			if err := fn(federations.ListedService{Service: m.one}); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// heapMeter takes an answer, and looks now and then at what is alive on the heap.
type heapMeter struct {
	header  http.Header
	bytes   int
	measure int
	most    uint64
}

func (m *heapMeter) Header() http.Header { return m.header }
func (m *heapMeter) WriteHeader(int)     {}
func (m *heapMeter) Write(p []byte) (int, error) {
	m.bytes += len(p)
	if m.bytes >= m.measure {
		m.measure += 16 << 20
		m.most = max(m.most, liveBytes())
	}
	return len(p), nil
}

func liveBytes() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestAListOfAnySizeNeedsConstantMemory: 100,000 services pass through the whole server, and what
// is alive meanwhile does not grow with them.
func TestAListOfAnySizeNeedsConstantMemory(t *testing.T) {
	f := &fake{}
	cases := manyServices{servicesOf: servicesOf{f}, n: 100_000, one: &oscar.Service{Name: "one", Image: "i", Script: strings.Repeat("x", 1000)}}
	handler := newServer(t, f, func(cfg *server.Config) { cfg.UseCases.Services = cases }).Handler()
	r := httptest.NewRequest(http.MethodGet, "/system/services", nil)
	r.SetBasicAuth(user, password)
	before, w := liveBytes(), &heapMeter{header: http.Header{}}
	handler.ServeHTTP(w, r)
	if w.bytes < 64<<20 {
		t.Fatalf("only %d bytes were sent", w.bytes)
	}
	if grown := int64(w.most) - int64(before); grown > 4<<20 {
		t.Errorf("%d bytes are alive while %d are sent", grown, w.bytes)
	}
}
