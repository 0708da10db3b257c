package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apiclient "github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/watch"
)

func TestAllIsWatchedAsOneStream(t *testing.T) {
	f := &fake{follow: func(_ context.Context, q watch.Query, w watch.Watcher) error {
		if q.Since != 7 || q.Epoch != "e" || !slices.Equal(q.Kinds, []string{"service", "cluster"}) || q.Filter.Owner != "ann" {
			t.Errorf("asked for %+v", q)
		}
		for _, e := range []v1.Event{
			{Revision: 8, Kind: v1.EventService, Name: "a/svc", Service: &v1.ServiceStatus{ClusterID: "a", ServiceName: "svc", Status: v1.Status{Phase: "ready"}}},
			{Revision: 8, Kind: v1.EventCluster, Name: "b", Deleted: true},
		} {
			if err := w.Event(e); err != nil {
				return err
			}
		}
		if err := w.Bookmark(v1.Bookmark{Revision: 8, Epoch: "e"}); err != nil {
			return err
		}
		return &fault.Error{Code: fault.CodeExpired, Message: "too slow"}
	}}
	resp := newClient(t, f).do("GET", "/system/watch?kind=service&kind=cluster&epoch=e&owner=ann", "", "Last-Event-ID", "7")
	body := bodyOf(t, resp)
	for _, part := range []string{
		"event: change\ndata: {\"revision\":8,\"kind\":\"service\",\"name\":\"a/svc\",\"service\":{",
		"event: change\ndata: {\"revision\":8,\"kind\":\"cluster\",\"name\":\"b\",\"deleted\":true}\n\n",
		"event: bookmark\nid: 8\ndata: {\"revision\":8,\"epoch\":\"e\"}\n\n", "event: end\ndata: {", "\"code\":\"expired\"",
	} {
		if !strings.Contains(body, part) {
			t.Errorf("%q is not in %s", part, body)
		}
	}
}

func TestNonsenseIsNotWatched(t *testing.T) {
	for _, query := range []string{"kind=pod", "limit=3", "continue=x", "label=a", "label=a&kind=service", "label=(&kind=cluster"} {
		f := &fake{}
		if resp := newClient(t, f).do("GET", "/system/watch?"+query, ""); resp.StatusCode != 400 || f.count() != 0 {
			t.Errorf("%s: %d, %d calls", query, resp.StatusCode, f.count())
		}
	}
	f := &fake{err: &fault.Error{Code: fault.CodeExpired}}
	if resp := newClient(t, f).do("GET", "/system/watch", "", "Last-Event-ID", "7"); resp.StatusCode != 410 {
		t.Errorf("a place that is lost: %d", resp.StatusCode)
	}
}

// TestTheClientResumesAtTheBookmark, and not at an event that came after it.
func TestTheClientResumesAtTheBookmark(t *testing.T) {
	var begun []watch.Query
	f := &fake{follow: func(_ context.Context, q watch.Query, w watch.Watcher) error {
		begun = append(begun, q)
		if err := w.Bookmark(v1.Bookmark{Revision: int64(10 * len(begun)), Epoch: "e"}); err != nil {
			return err
		}
		if err := w.Event(v1.Event{Revision: 999, Kind: v1.EventCluster, Name: "b", Deleted: true}); err != nil {
			return err
		}
		if len(begun) == 3 {
			return &fault.Error{Code: fault.CodeExpired, Message: "too slow"}
		}
		return nil
	}}
	server := httptest.NewServer(newServer(t, f).Handler())
	defer server.Close()
	c, err := apiclient.New(apiclient.Config{Endpoint: server.URL, User: user, Password: password, Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	err = c.WatchAll(t.Context(), apiclient.WatchAllOptions{Kinds: []string{v1.EventCluster}}, func(*v1.Event) error { told++; return nil })
	if err == nil || !strings.Contains(err.Error(), "too slow") || told != 3 || len(begun) != 3 || begun[0].Since != 0 || begun[1].Since != 10 || begun[2].Since != 20 || begun[2].Epoch != "e" {
		t.Errorf("%v: told %d times, begun %+v", err, told, begun)
	}
}
