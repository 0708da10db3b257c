package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// TestPagesAreFollowed until one names no next one, or fails; a caller may stop before.
func TestPagesAreFollowed(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		page := map[string]int{"": 0, "1": 1, "2": 2}[r.URL.Query().Get("continue")]
		if page == 2 && r.URL.Query().Get("owner") == "gone" {
			w.Header().Set("Content-Type", v1.ProblemType)
			w.WriteHeader(http.StatusGone)
			_ = json.NewEncoder(w).Encode(v1.Problem{Code: v1.CodeExpired, Status: http.StatusGone})
			return
		}
		if page < 2 {
			w.Header().Set("Oscarfed-Continue", fmt.Sprint(page+1))
		}
		_ = json.NewEncoder(w).Encode([]v1.Federation{{GroupID: fmt.Sprint(2 * page)}, {GroupID: fmt.Sprint(2*page + 1)}})
	}))
	defer server.Close()
	c, err := client.New(client.Config{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	read := func(q client.ListQuery, most int) (got string, err error) {
		for f, err := range c.FederationPages(t.Context(), q) {
			if err != nil {
				return got, err
			}
			if got += f.GroupID; len(got) == most {
				break
			}
		}
		return got, nil
	}
	if got, err := read(client.ListQuery{Limit: 2, Label: "a=b", Phases: []string{"ready"}}, 0); got != "012345" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if want := "/system/federations?continue=2&label=a%3Db&limit=2&phase=ready"; asked[2] != want {
		t.Errorf("asked for %s, want %s", asked[2], want)
	}
	if got, err := read(client.ListQuery{Owner: "gone"}, 0); got != "0123" || err == nil {
		t.Errorf("%s, %v", got, err)
	}
	asked = nil
	if got, err := read(client.ListQuery{}, 1); got != "0" || err != nil || len(asked) != 1 {
		t.Errorf("%s, %v, %d requests", got, err, len(asked))
	}
}

// A list whose revision is gone between two pages is read anew, and no entry is told twice.
func TestAListIsOfOneRevision(t *testing.T) {
	lists, gone := 0, 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := r.URL.Query().Get("continue")
		if next == "" {
			lists++
			w.Header().Set("Oscarfed-Continue", "1")
		} else if lists <= gone {
			w.Header().Set("Content-Type", v1.ProblemType)
			w.WriteHeader(http.StatusGone)
			_ = json.NewEncoder(w).Encode(v1.Problem{Code: v1.CodeExpired, Status: http.StatusGone})
			return
		}
		_ = json.NewEncoder(w).Encode([]map[string]string{{"group_id": fmt.Sprint(lists) + next}})
	}))
	defer server.Close()
	c, err := client.New(client.Config{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for what, list := range map[string]func() ([]string, error){
		"all federations": func() (groups []string, err error) {
			list, err := c.Federations(t.Context())
			for _, f := range list {
				groups = append(groups, f.GroupID)
			}
			return groups, err
		},
		"the federations of a query": func() (groups []string, err error) {
			list, err := c.FederationsOf(t.Context(), client.ListQuery{Label: "a=b"})
			for _, f := range list {
				groups = append(groups, f.GroupID)
			}
			return groups, err
		},
		"the audit": func() (groups []string, err error) {
			list, err := c.Audit(t.Context(), client.AuditQuery{Limit: 2})
			for _, e := range list {
				groups = append(groups, e.GroupID)
			}
			return groups, err
		},
	} {
		lists, gone = 0, 1
		if groups, err := list(); err != nil || strings.Join(groups, ",") != "2,21" {
			t.Errorf("%s: %v, %v", what, groups, err)
		}
		gone = 1000
		if groups, err := list(); err == nil {
			t.Errorf("%s that are never whole: %v", what, groups)
		}
	}
}

// A page of entries that are too large together is asked for in smaller ones.
func TestAPageThatIsTooLargeIsAskedForInParts(t *testing.T) {
	const entries = 5
	var limits []string
	large := strings.Repeat("x", 20<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits = append(limits, r.URL.Query().Get("limit"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		end := min(from+limit, entries)
		if end < entries {
			w.Header().Set("Oscarfed-Continue", strconv.Itoa(end))
		}
		var page []v1.Federation
		for i := from; i < end; i++ {
			page = append(page, v1.Federation{GroupID: strconv.Itoa(i), Owner: large})
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Endpoint: server.URL, Timeout: time.Hour, HeadTimeout: time.Hour}) // a busy machine needs long for them
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for f, err := range c.FederationPages(t.Context(), client.ListQuery{Limit: 8}) {
		if err != nil {
			t.Fatal(err)
		}
		got += f.GroupID
	}
	if got != "01234" || fmt.Sprint(limits) != "[8 4 2 2 2]" {
		t.Errorf("%s, by pages of %v", got, limits)
	}
}

// The newest entries of the audit are found where a page has none of them.
func TestTheAuditGoesOnBehindAnEmptyPage(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Query().Get("continue")
		asked = append(asked, at)
		page := []v1.AuditEntry{{ID: "a" + at}, {ID: "b" + at}}
		if at == "" {
			page = nil
		}
		w.Header().Set("Oscarfed-Continue", at+"1")
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Audit(t.Context(), client.AuditQuery{Limit: 3})
	if err != nil || len(list) != 3 || list[0].ID != "a1" || list[2].ID != "a11" || len(asked) != 3 {
		t.Errorf("%v after %q: %v", list, asked, err)
	}
}
