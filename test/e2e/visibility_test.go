package e2e_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// Services of alice's, with names as long as that of one that is not there.
const (
	privateName    = "svc-private-0"
	restrictedName = "svc-shared--0"
	publicName     = "svc-public--0"
	absentName     = "svc-absent--0"
)

// ask is one request about a service; SERVICE stands for its name.
type ask struct {
	method, path, body string
	// reader says that all who may see the service get an answer; else only its owner does.
	reader bool
}

// relayed says that the member answers, not the control plane: that is tried in
// TestInvocationsAndLogsGoThroughTheStreams.
func (q ask) relayed() bool {
	return strings.HasPrefix(q.path, "/run/") || strings.HasPrefix(q.path, "/system/logs/")
}

// asks are all requests about one service, by their route in the router.
func asks() map[string][]ask {
	const def = `{"name":"SERVICE","cluster_id":"oscar-cluster-a","image":"i","script":"s"}`
	const list = `{"replicas":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"svc-member--0"}]}`
	const members = `{"members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"svc-member--0"}]}`
	get, put, post, del := http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	return map[string][]ask{
		"GET /system/services/{service}": {
			{get, "/system/services/SERVICE", "", true}, {get, "/system/services/SERVICE?cluster_id=oscar-cluster-a", "", true}},
		"GET /system/services/{service}/deployment":      {{get, "/system/services/SERVICE/deployment", "", true}},
		"GET /system/services/{service}/deployment/logs": {{get, "/system/services/SERVICE/deployment/logs?tailLines=200", "", true}},
		"POST /system/services/{service}/restart":        {{post, "/system/services/SERVICE/restart", "", false}},
		"POST /system/services/{service}/start":          {{post, "/system/services/SERVICE/start", "", false}},
		"POST /system/services/{service}/stop":           {{post, "/system/services/SERVICE/stop", "", false}},
		"PUT /system/services":                           {{put, "/system/services", def, false}},
		"DELETE /system/services/{service}": {
			{del, "/system/services/SERVICE?data=delete&jobs=cancel", "", false}, {del, "/system/services/SERVICE?wait=1s", "", false}},
		"GET /system/federation/{service}":    {{get, "/system/federation/SERVICE", "", true}},
		"POST /system/federation/{service}":   {{post, "/system/federation/SERVICE", members, false}},
		"PUT /system/federation/{service}":    {{put, "/system/federation/SERVICE", members, false}},
		"DELETE /system/federation/{service}": {{del, "/system/federation/SERVICE", members, false}},
		"GET /system/replicas/{service}": {
			{get, "/system/replicas/SERVICE", "", true}, {get, "/system/replicas/SERVICE?wait=1s", "", true}},
		"POST /system/replicas/{service}":                 {{post, "/system/replicas/SERVICE", list, false}},
		"PUT /system/replicas/{service}":                  {{put, "/system/replicas/SERVICE", list, false}},
		"DELETE /system/replicas/{service}":               {{del, "/system/replicas/SERVICE?all=true", "", false}},
		"GET /system/replicas/{service}/history":          {{get, "/system/replicas/SERVICE/history", "", true}},
		"POST /system/replicas/{service}/rollback":        {{post, "/system/replicas/SERVICE/rollback", `{"to":1}`, false}, {post, "/system/replicas/SERVICE/rollback", `{"to":7}`, false}},
		"PUT /system/replicas/{service}/paused":           {{put, "/system/replicas/SERVICE/paused", `{"paused":true}`, false}},
		"POST /system/replicas/{service}/rotate-token":    {{post, "/system/replicas/SERVICE/rotate-token", "", false}},
		"GET /system/replicas/{service}/refresh-token":    {{get, "/system/replicas/SERVICE/refresh-token", "", false}},
		"PUT /system/replicas/{service}/refresh-token":    {{put, "/system/replicas/SERVICE/refresh-token", `{"refresh_token":"r"}`, false}},
		"DELETE /system/replicas/{service}/refresh-token": {{del, "/system/replicas/SERVICE/refresh-token", "", false}},
		"POST /job/{service}":                             {{post, "/job/SERVICE", "an event", true}, {post, "/job/SERVICE?cluster_id=oscar-cluster-a", "", true}},
		"POST /run/{service}":                             {{post, "/run/SERVICE", "a question", true}},
		"GET /system/logs/{service}":                      {{get, "/system/logs/SERVICE", "", true}},
		"DELETE /system/logs/{service}":                   {{del, "/system/logs/SERVICE?all=true", "", false}},
		"GET /system/logs/{service}/{job}":                {{get, "/system/logs/SERVICE/a-job", "", true}},
		"DELETE /system/logs/{service}/{job}":             {{del, "/system/logs/SERVICE/a-job", "", false}},
		"GET /system/federations/{federation}":            {{get, "/system/federations/SERVICE", "", true}},
		"POST /system/differences":                        {{post, "/system/differences", `{"cluster_id":"oscar-cluster-a","service_name":"SERVICE","keep":"store"}`, false}},
	}
}

// elsewhere are the routes that are not about one service, with where they are tested.
func elsewhere() []string {
	return []string{
		"GET /health", "GET /openapi.yaml", "GET /system/info", "GET /system/config", "GET /system/login", "GET /system/whoami", // the same for everybody
		"GET /", "GET /ui", "GET /ui/{file}", // the web page, which has no data
		"GET /system/services", "GET /system/replicas", "GET /system/federations", "GET /system/deleted", "GET /system/differences", "GET /system/usage", "GET /system/watch", "GET /system/events", "GET /system/stats", "GET /system/audit", // lists, below
		"POST /system/services", "POST /system/plans", // a taken name, below
		"POST /system/federations", // several creations in one
		"GET /system/jobs", "GET /system/jobs/{job}", "GET /system/jobs/{job}/explain", "POST /system/jobs/{job}/cancel",
		"POST /system/jobs/{job}/replay", "POST /system/jobs/{job}/resolve", // TestJobsThroughTheAPI
		"GET /system/clusters", "POST /system/clusters", "GET /system/clusters/{cluster}", "PUT /system/clusters/{cluster}",
		"DELETE /system/clusters/{cluster}", "PUT /system/clusters/{cluster}/state", "POST /system/clusters/{cluster}/join", // the administrator's
		"GET /system/support",                    // the administrator's: TestASupportBundleHasNothingThatWasEntrusted
		"POST /system/upgrade/finish",            // the administrator's: TestAnOlderVersionComesBackUntilTheUpgradeIsFinished
		"GET /system/logs", "GET /system/status", // clusters, and no service
		"POST /system/join", "POST /system/join/challenge", "POST /system/join/renew", "GET /system/relay", "POST /system/relay/challenge", // syncers'
	}
}

// answerTo is an answer without what differs from one request to the next.
func answerTo(w *world.World, q ask, name, authorization string, header ...string) string {
	w.T.Helper()
	fill := strings.NewReplacer("SERVICE", name)
	status, h, text := w.Raw(q.method, fill.Replace(q.path), fill.Replace(q.body), authorization, header...)
	for _, key := range []string{"Date", "X-Request-Id"} {
		h.Del(key)
	}
	var lines []string
	for key, values := range h {
		lines = append(lines, fmt.Sprint(key, values))
	}
	slices.Sort(lines)
	all := fmt.Sprintf("%d %s\n%s", status, lines, text)
	all = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllString(all, "UUID")
	return strings.ReplaceAll(all, name, "NAME")
}

// For every route, and callers that may and may not see a service: a service that the
// caller may not see answers as if it did not exist, in every letter, whatever headers he
// sends; a caller that sees it and does not own it may change nothing.
func TestWhatMayNotBeSeenAnswersAsIfItDidNotExist(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) { o.Clusters, o.Names = []string{a, b}, []string{"svc"} })
		const bob, carol = "bob", "carol/of|physics@egi.eu"
		w.AddUser(bob)
		w.AddUser(carol)
		owner := w.WithToken(w.Token(alice, nil))
		for name, extra := range map[string]string{
			privateName:    "",
			restrictedName: `"visibility":"restricted","allowed_users":[" ` + carol + ` ","somebody"],`,
			publicName:     `"visibility":"public",`,
		} {
			def := fmt.Sprintf(`{"name":%q,"cluster_id":"oscar-cluster-a",%s"image":"i","script":"s"}`, name, extra)
			if _, err := owner.CreateService(t.Context(), world.Service(t, def), client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		everyRouteIsAsked(t, w)
		hidden := 0
		sees := map[string][]string{
			bob:   {publicName},
			carol: {publicName, restrictedName},
		}
		for caller, visible := range sees {
			authorization := "Bearer " + w.Token(caller, nil)
			for route, all := range asks() {
				for i, q := range all {
					for _, headers := range [][]string{
						nil, {"If-Match", `"1"`}, {"Idempotency-Key", "a-key-of-" + caller + fmt.Sprint(route, i)},
						{"Accept", "application/problem+json"}, {"X-Forwarded-User", alice}, {"Cookie", "session=" + alice},
					} {
						nothing := answerTo(w, q, absentName, authorization, headers...)
						for _, name := range []string{privateName, restrictedName, publicName} {
							got := answerTo(w, q, name, authorization, headers...)
							may := slices.Contains(visible, name)
							if !may {
								hidden++
							}
							switch {
							case !may && got != nothing:
								t.Errorf("%s asks %s of %s, with %v:\n%s\nand if it is not there:\n%s", caller, route, name, headers, got, nothing)
							case q.relayed(), headers != nil && headers[0] == "If-Match" && strings.Contains(got, "cannot be bound to a revision"):
							case may && q.reader && !strings.HasPrefix(got, "20"), may && !q.reader && route != "POST /system/differences" && !strings.HasPrefix(got, "403 "):
								t.Errorf("%s asks %s of %s, which he sees: %s", caller, route, name, got)
							}
						}
					}
				}
			}
			listsShow(t, w, authorization, visible)
			takenNames(t, w, authorization)
		}
		t.Logf("%d requests about services that the caller may not see", hidden)
		if hidden < 516 {
			t.Errorf("only %d requests about services that the caller may not see", hidden)
		}
		// The owner and the administrator see everything, and are told what is wrong with a
		// precondition.
		for who, authorization := range map[string]string{
			"the owner":         "Bearer " + w.Token(alice, nil),
			"the administrator": "Basic " + base64.StdEncoding.EncodeToString([]byte(world.User+":"+world.Password)),
		} {
			for _, name := range []string{privateName, restrictedName, publicName} {
				for route, all := range asks() {
					for _, q := range all {
						if q.reader && !q.relayed() {
							if got := answerTo(w, q, name, authorization); !strings.HasPrefix(got, "20") {
								t.Errorf("%s asks %s of %s: %s", who, route, name, got)
							}
						}
					}
				}
				change := asks()["PUT /system/services"][0]
				if got := answerTo(w, change, name, authorization, "If-Match", `"1"`); !strings.HasPrefix(got, "412 ") {
					t.Errorf("%s changes %s with an old If-Match: %s", who, name, got)
				}
			}
		}
	})
}

// everyRouteIsAsked holds the table against the router.
func everyRouteIsAsked(t *testing.T, w *world.World) {
	t.Helper()
	auth, err := identity.NewBasic("oscar", "x")
	if err != nil {
		t.Fatal(err)
	}
	router, ok := server.New(server.Config{UseCases: boot.UseCases(w.CP), Authenticator: auth}).Handler().(chi.Routes)
	if !ok {
		t.Fatal("the API has no routes to be seen")
	}
	known := asks()
	forwarded := map[string]bool{} // OSCAR says what may be seen: TestWhatAUserHasAtTheOSCARs
	for _, route := range v1.ForwardRoutes() {
		forwarded[route.Method+" /system"+route.Path] = true
	}
	err = chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if at := method + " " + route; known[at] == nil && !forwarded[at] && !slices.Contains(elsewhere(), at) {
			t.Errorf("nobody asks %s", at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listsShow: lists have what may be seen, and nothing of the rest.
func listsShow(t *testing.T, w *world.World, authorization string, visible []string) {
	t.Helper()
	for _, path := range []string{"/system/services", "/system/replicas", "/system/federations", "/system/deleted", "/system/differences", "/system/clusters", "/system/clusters/" + a, "/system/usage", "/system/events", "/system/stats", "/system/audit", "/system/audit?by=" + alice, "/system/audit?federation=" + publicName} {
		status, _, text := w.Raw("GET", path, "", authorization)
		if status != 200 {
			t.Errorf("GET %s: %d", path, status)
		}
		for _, name := range []string{privateName, restrictedName, publicName} {
			want := slices.Contains(visible, name) && (path == "/system/services" || path == "/system/replicas" || path == "/system/federations" || path == "/system/events")
			if strings.Contains(text, name) != want {
				t.Errorf("GET %s tells of %s: %v", path, name, !want)
			}
		}
	}
	if _, _, text := w.Raw("GET", "/system/usage", "", authorization); strings.Count(text, `"subject":`) != 1 {
		t.Errorf("GET /system/usage tells of other accounts: %s", text)
	}
}

// takenNames: a taken name is the one exception, and does not tell whose it is.
func takenNames(t *testing.T, w *world.World, authorization string) {
	t.Helper()
	def := fmt.Sprintf(`{"name":%q,"cluster_id":"oscar-cluster-a","image":"i","script":"s"}`, privateName)
	for _, path := range []string{"/system/services", "/system/plans"} {
		status, _, text := w.Raw("POST", path, def, authorization)
		if status != 409 || strings.Contains(text, "lice") || strings.Contains(text, "62bb11b4") {
			t.Errorf("POST %s of a taken name: %d %s", path, status, text)
		}
	}
}

// What was private when it was written stays so when the service is made public.
func TestHistoryKeepsWhatWasPrivate(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) { o.Clusters, o.Names = []string{a}, []string{"svc"} })
		w.AddUser("bob")
		owner, bob := w.WithToken(w.Token(alice, nil)), w.WithToken(w.Token("bob", nil))
		def := `{"name":"svc-private-0","image":"secret-of-alice","script":"s","visibility":"private"}`
		if _, err := owner.CreateService(t.Context(), world.Service(t, def), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.History(t.Context(), privateName, ""); codeOf(err) != "not_found" {
			t.Errorf("while it is private: %v", err)
		}
		def = strings.NewReplacer("secret-of-alice", "for-everybody", `"private"`, `"public"`).Replace(def)
		if _, err := owner.ChangeService(t.Context(), world.Service(t, def), client.ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		for who, want := range map[*client.Client]int{bob: 1, owner: 2} {
			history, err := who.History(t.Context(), privateName, "")
			if err != nil || len(history) != want {
				t.Errorf("%d generations, want %d, %v", len(history), want, err)
			}
		}
	})
}
