package server_test

import (
	"strings"
	"testing"
)

// What clients of OSCAR ask, as they ask it, and a control plane does not do. They hide
// the text of a 404 ("Error: not found"), and show that of every other answer.
func TestClientsAreToldWhatAControlPlaneDoesNotDo(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	for route, says := range map[string]string{
		"GET /system/logs":   "/system/logs/SERVICE",
		"PUT /system/config": "images",
		"GET /system/services/grayifyr0/auth?token=0123456789a": "exposed",
		"GET /system/services/grayifyr0/exposed":                "at the OSCAR",
		"POST /system/services/grayifyr0/exposed/v2/models/":    "at the OSCAR",
	} {
		method, path, _ := strings.Cut(route, " ")
		resp := c.do(method, path, "")
		if got := bodyOf(t, resp); resp.StatusCode != 501 || !strings.Contains(got, says) || resp.Header.Get("Content-Type") != text {
			t.Errorf("%s: %d %q", route, resp.StatusCode, got)
		}
		if p := problemOf(t, c.do(method, path, "", "Accept", problemType)); p.Code != "not_served" || p.Status != 501 {
			t.Errorf("%s: %+v", route, p)
		}
	}
	for _, route := range []string{
		"PATCH /system/buckets", "GET /buckets", "GET /system/bucketsx", "GET /system/buckets/b/presign", "GET /system/quotas", "DELETE /system/metrics", "POST /system/logs", "DELETE /system/logs", "POST /system/config", "GET /system/config/x",
		"GET /system/services/grayifyr0/restart", "POST /system/services/grayifyr0/auth", "POST /system/services/a/b/stop",
	} {
		method, path, _ := strings.Cut(route, " ")
		if resp := c.do(method, path, ""); resp.StatusCode != 404 || bodyOf(t, resp) != "404 page not found" {
			t.Errorf("%s: %d", route, resp.StatusCode)
		}
	}
	if f.count() != 0 {
		t.Errorf("calls: %+v", f.calls)
	}
}
