package server_test

import (
	"context"
	"crypto"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

const joinBody = `{"token":"ofj_0","cluster_id":"oscar-cluster-d","csr":"pem","recipient":"age1","kube_system_uid":"k"}`

func TestIssueJoin(t *testing.T) {
	token := "ofj_" + strings.Repeat("a", 64)
	f := &fake{joinToken: &v1.JoinToken{ClusterID: "d", ClusterUID: "u", Token: token, ExpiresAt: v1.Time{Time: moment("2026-11-20T13:15:00Z")}}}
	c := newClient(t, f)
	want(t, c.do("POST", "/system/clusters/d/join", `{"replace_key":true}`), 201, jsonType,
		`{"cluster_id":"d","cluster_uid":"u","token":"`+token+`","expires_at":"2026-11-20T13:15:00.000Z"}`)
	if got := f.only(t); got.name != "IssueJoin d" || got.args != true || got.caller.Subject != identity.Admin {
		t.Errorf("asked %+v", got)
	}
}

// A syncer has no credentials, and none are looked at.
func TestJoinNeedsNoCredentials(t *testing.T) {
	removed := v1.Time{Time: moment("2026-11-21T00:00:00Z")}
	f := &fake{enrolment: &v1.Enrolment{
		ClusterID: "d", ClusterUID: "u", Certificate: "pem", ExpiresAt: v1.Time{Time: moment("2026-11-21T13:00:00Z")},
		EtcdEndpoints: []string{"https://e:2379"}, RemovedAt: &removed,
	}}
	c := newClient(t, f)
	const answer = `{"cluster_id":"d","cluster_uid":"u","certificate":"pem","expires_at":"2026-11-21T13:00:00.000Z","etcd_ca":"","etcd_endpoints":["https://e:2379"],"removed_at":"2026-11-21T00:00:00.000Z"}`
	want(t, c.do("POST", "/system/join", joinBody, "Authorization", ""), 200, jsonType, answer)
	want(t, c.do("POST", "/system/join/renew", `{"cluster_id":"d","cluster_uid":"u","csr":"pem"}`, "Authorization", "Basic %%%"), 200, jsonType, answer)
	want(t, c.do("POST", "/system/join/challenge", "{}", "Authorization", ""), 200, jsonType, `{"challenge":"a-challenge","expires_at":"2026-11-20T13:09:05.120Z"}`)
	if got := f.calls[0].args; got != (v1.Join{Token: "ofj_0", ClusterID: "oscar-cluster-d", CSR: "pem", Recipient: "age1", KubeSystemUID: "k"}) {
		t.Errorf("the join is %+v", got)
	}
}

// What the control plane refuses keeps its code on these paths, and none of the answers asks for
// credentials, which a joining syncer does not have.
func TestJoinRefusals(t *testing.T) {
	for code, status := range map[fault.Code]int{
		fault.CodeInvalid: 400, fault.CodeForbidden: 403, fault.CodeConflict: 409,
		fault.CodeFailedPrecondition: 422, fault.CodeUnavailable: 503, fault.CodeUnknownOutcome: 504,
	} {
		for _, path := range []string{"/system/join", "/system/join/renew"} {
			c := newClient(t, &fake{err: &fault.Error{Code: code, Message: "no"}})
			resp := c.do("POST", path, joinBody, "Authorization", "")
			if p := problemOf(t, resp); resp.StatusCode != status || p.Code != string(code) || resp.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s with %s: %d %+v", path, code, resp.StatusCode, p)
			}
		}
	}
	c := newClient(t, &fake{})
	for name, body := range map[string]string{"none": "", "no JSON": "token", "an array": "[]", "a number for the token": `{"token":1}`} {
		if resp := c.do("POST", "/system/join", body, "Authorization", ""); resp.StatusCode != 400 {
			t.Errorf("a body that is %s: %d", name, resp.StatusCode)
		}
	}
	large := `{"token":"` + strings.Repeat("x", 17<<10) + `"}`
	if resp := c.do("POST", "/system/join", large, "Authorization", ""); resp.StatusCode != 413 {
		t.Errorf("17 KiB: %d", resp.StatusCode)
	}
}

// Guessing is slow, and stops no other address.
func TestWrongJoinTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{err: &fault.Error{Code: fault.CodeForbidden, Message: "no"}}
		handler := newServer(t, f, limited(5)).Handler()
		from := func(address, path string) int {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(joinBody))
			r.RemoteAddr = address
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		for range 5 {
			if code := from("192.0.2.1:1", "/system/join"); code != 403 {
				t.Fatalf("a wrong token: %d", code)
			}
		}
		<-time.After(100 * time.Millisecond)
		asked := f.count()
		// The second has no limit but that of failures.
		for _, path := range []string{"/system/join/renew", "/system/clusters"} {
			if code := from("192.0.2.1:2", path); code != 429 {
				t.Errorf("%s after five wrong tokens: %d", path, code)
			}
		}
		if f.count() != asked {
			t.Error("the control plane was asked all the same")
		}
		if code := from("192.0.2.2:1", "/system/join"); code != 403 {
			t.Errorf("from elsewhere: %d", code)
		}
	})
}

// signer accepts every syncer that the control plane accepts.
type signer struct{ authority *pki.Authority }

func (signer) Admit(context.Context, string, string) error  { return nil }
func (signer) Revoke(context.Context, string, string) error { return nil }
func (s signer) Sign(key crypto.PublicKey, cluster, uid string) ([]byte, time.Time, error) {
	a := clusters.EtcdAccess{Authority: s.authority}
	return a.Sign(key, cluster, uid)
}
func (signer) Trust() ([]byte, []string) { return nil, []string{"https://127.0.0.1:1"} }

// Whatever is sent, the answer is one of those that are described, does not repeat the token, and
// admits no syncer without it.
func FuzzJoin(f *testing.F) {
	authority, err := pki.LoadOrCreate(f.TempDir(), "test", time.Now)
	if err != nil {
		f.Fatal(err)
	}
	id, err := seal.Generate()
	if err != nil {
		f.Fatal(err)
	}
	cp, err := controlplane.New(controlplane.Config{Store: storetest.New(f), Identity: id, Access: signer{authority}})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- cp.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.Error(err)
		}
	})
	<-cp.Ready()
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	if _, err := cp.Clusters.Register(f.Context(), admin, clusters.Spec{ClusterID: "d", Endpoint: "https://d.example.org"}); err != nil {
		f.Fatal(err)
	}
	token, err := cp.Clusters.IssueJoin(f.Context(), admin, "d", false)
	if err != nil {
		f.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		f.Fatal(err)
	}
	csr, err := pki.NewRequest(key, "d")
	if err != nil {
		f.Fatal(err)
	}
	handler := newServer(f, &fake{}, func(cfg *server.Config) {
		cfg.UseCases.Joins = cp.Clusters
		cfg.RateLimit = 0
	}).Handler()
	valid, err := json.Marshal(v1.Join{Token: token.Token, ClusterID: "d", CSR: string(csr), Recipient: id.Recipient(), KubeSystemUID: "k"})
	if err != nil {
		f.Fatal(err)
	}
	text := string(valid)
	for _, seed := range []string{
		text, strings.Replace(text, token.Token, "", 1), strings.Replace(text, `"d"`, `"../d"`, 1), strings.Replace(text, "ofj_", "OFJ_", 1),
		strings.Replace(text, "BEGIN", "BEGIN BEGIN", 1), text + text, "{}", "[]", "null", `{"csr":null,"token":{}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/system/join", "/system/join/renew"} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if !slices.Contains([]int{200, 400, 403, 409, 413, 422}, w.Code) {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), token.Token) {
				t.Fatalf("%s: the answer repeats the token", path)
			}
			if w.Code == 200 && !strings.Contains(body, token.Token) && !strings.Contains(body, `\u`) {
				t.Fatalf("%s: somebody was let in without the token: %s", path, body)
			}
		}
	})
}
