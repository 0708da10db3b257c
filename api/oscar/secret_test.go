package oscar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const withSecrets = `{"name":"svc","image":"i","token":"hunter2-token","federation":{"members":[` +
	`{"cluster_id":"b","service_name":"s","headers":{"X-Key":"hunter2-header","Empty":""}},{"cluster_id":"c","service_name":"s"}]},` +
	`"environment":{"variables":{"OPEN":"yes"},"secrets":{"pw":"hunter2-env","none":"","refresh_token":"hunter2-refresh"}},` +
	`"storage_providers":{"s3":{"x":{"access_key":"hunter2-ak","secret_key":"hunter2-sk","region":"eu","session_token":"hunter2-st"}},` +
	`"minio":{"default":{"endpoint":"http://m","access_key":"hidden","secret_key":"hidden"},"m":{"endpoint":"http://m","access_key":"hunter2-mak"}},` +
	`"onedata":{"o":{"oneprovider_host":"h","token":"hunter2-ot","space":"sp"}},"webdav":{"d":{"hostname":"h","login":"me","password":"hunter2-wp"}},` +
	`"rucio":{"r":{"host":"h","refresh_token":"hunter2-rt","token_endpoint":"https://t"}},` +
	`"azure":{"d":{"account":"acc","account_key":"hunter2-az","more":[{"sas_url":"hunter2-sas","region":"r"}]}}},` +
	`"clusters":{"b":{"endpoint":"https://b","auth_user":"hunter2-user","auth_password":"hunter2-pw","api_token":"hunter2-api"}},` +
	`"secrets":{"other":"hunter2-top","refresh_token":"hunter2-refresh2"}}`

func TestSplitSecrets(t *testing.T) {
	s := parse(t, withSecrets)
	before := text(t, s)
	public, patch := SplitSecrets(s)
	if text(t, s) != before {
		t.Error("the service itself was changed")
	}
	wantPublic := `{"name":"svc","image":"i","federation":{"members":[{"cluster_id":"b","service_name":"s","headers":{"Empty":"","X-Key":""}},{"cluster_id":"c","service_name":"s"}]},` +
		`"environment":{"variables":{"OPEN":"yes"},"secrets":{"none":"","pw":""}},` +
		`"storage_providers":{"s3":{"x":{"region":"eu","session_token":""}},"minio":{"default":{"endpoint":"http://m","access_key":"hidden","secret_key":"hidden"},"m":{"endpoint":"http://m"}},` +
		`"onedata":{"o":{"oneprovider_host":"h","space":"sp"}},"webdav":{"d":{"hostname":"h","login":"me"}},"rucio":{"r":{"host":"h","token_endpoint":"https://t"}},` +
		`"azure":{"d":{"account":"acc","account_key":"","more":[{"sas_url":"","region":"r"}]}}},"clusters":{"b":{"endpoint":"https://b"}},"secrets":{"other":""}}`
	if diff := cmp.Diff(wantPublic, text(t, public)); diff != "" {
		t.Errorf("public (-want +got):\n%s", diff)
	}
	for _, secret := range []string{"token", "header", "env", "ak", "sk", "st", "mak", "ot", "wp", "rt", "az", "sas", "top"} {
		if !strings.Contains(string(patch), `"hunter2-`+secret+`"`) {
			t.Errorf("hunter2-%s is not in the patch %s", secret, patch)
		}
	}
	for _, gone := range []string{"hunter2-user", "hunter2-pw", "hunter2-api", "hunter2-refresh"} {
		if strings.Contains(string(patch), gone) {
			t.Errorf("%s is in the patch", gone)
		}
	}
	for _, open := range []string{"hidden", "eu", "yes", `"acc"`, "https://t"} {
		if strings.Contains(string(patch), open) {
			t.Errorf("%s is in the patch, and is no secret: %s", open, patch)
		}
	}
	merged, err := MergePatch([]byte(text(t, public)), patch)
	if err != nil {
		t.Fatal(err)
	}
	whole := parse(t, withSecrets)
	whole.TakeRefreshToken()
	whole.Clusters = map[string]ClusterCredential{"b": {Endpoint: "https://b"}}
	if !Equal(parse(t, string(merged)), whole) {
		t.Errorf("put together again:\n%s\nwant\n%s", merged, text(t, whole))
	}
}

func TestSplitSecretsOfAServiceWithoutAny(t *testing.T) {
	s := parse(t, `{"name":"svc","input":[]}`)
	public, patch := SplitSecrets(s)
	if string(patch) != "{}" || !Equal(public, s) {
		t.Errorf("public %s, patch %s", text(t, public), patch)
	}
}

// Whatever the secrets are, none is readable in public and all come back.
func TestSplitSecretsLosesAndShowsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 0
		secret := func() string { n++; return fmt.Sprintf("hunter2-%d", n) }
		s := &Service{Name: "svc", StorageProviders: &StorageProviders{}, Federation: &Federation{}}
		fill := func(label string) map[string]string {
			m := map[string]string{}
			for _, key := range rapid.SliceOfN(rapid.StringMatching(`[a-z_.-]{1,6}`), 0, 4).Draw(t, label) {
				m[key] = secret()
			}
			return m
		}
		s.Environment.Secrets = fill("secrets")
		if rapid.Bool().Draw(t, "token") {
			s.Token = secret()
		}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			s.Federation.Members = append(s.Federation.Members, Member{ClusterID: "b", Headers: fill("headers")})
		}
		if rapid.Bool().Draw(t, "s3") {
			s.StorageProviders.S3 = map[string]S3Provider{"x.y": {AccessKey: secret(), SecretKey: secret(), Region: "open"}}
		}
		whole := mustEncode(s)
		public, patch := SplitSecrets(s)
		shown := mustEncode(public)
		if strings.Contains(string(shown), "hunter2") {
			t.Fatalf("shown: %s", shown)
		}
		merged, err := MergePatch(shown, patch)
		if err != nil {
			t.Fatal(err)
		}
		back, violations := ParseService(merged)
		if len(violations) > 0 || string(mustEncode(back)) != string(whole) {
			t.Fatalf("lost: %s, was %s (%v)", merged, whole, violations)
		}
	})
}

func TestKeepAbsent(t *testing.T) {
	const federation = `"federation":{"group_id":"g","topology":"mesh","delegation":"random","members":[{"cluster_id":"b","service_name":"s","headers":{"H":"v"}}],"weights":{"b":2}}`
	const secrets = `"environment":{"secrets":{"k":"v"}}`
	old := parse(t, `{"name":"s",`+federation+`,`+secrets+`}`)
	for _, tc := range []struct{ name, change, want string }{
		{"both absent", `{"name":"s"}`, `{"name":"s",` + federation + `,` + secrets + `}`},
		{"null", `{"name":"s","federation":null,"replicas":null,"environment":null}`, `{"name":"s",` + federation + `,` + secrets + `}`},
		{"what oscar-cli sends", `{"name":"s","replicas":null,"delegation":"static","rescheduler_threshold":0,"environment":{"variables":{},"secrets":null}}`,
			`{"name":"s",` + federation + `,"environment":{"variables":{},"secrets":{"k":"v"}}}`},
		{"a policy of v3 alone", `{"name":"s","delegation":"topsis","rescheduler_threshold":7,` + secrets + `}`,
			`{"name":"s",` + strings.Replace(federation, `"random"`, `"topsis","rescheduler_threshold":7`, 1) + `,` + secrets + `}`},
		{"empty objects", `{"name":"s","federation":{},"environment":{"secrets":{}}}`, `{"name":"s","federation":{},"environment":{"secrets":{}}}`},
		{"no members", `{"name":"s","federation":{"members":[]},"environment":{"secrets":{"other":"x"}}}`,
			`{"name":"s","federation":{"members":[]},"environment":{"secrets":{"other":"x"}}}`},
		{"no replicas", `{"name":"s","replicas":[],` + secrets + `}`, `{"name":"s","federation":{},` + secrets + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, s := range []*Service{parse(t, tc.change), parse(t, text(t, parse(t, tc.change).Submitted()))} {
				s.KeepAbsent(old)
				if diff := cmp.Diff(text(t, parse(t, tc.want)), text(t, s)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	s := parse(t, `{"name":"s","delegation":"topsis"}`)
	s.KeepAbsent(parse(t, `{"name":"s"}`))
	if got, want := text(t, s), `{"name":"s","federation":{"delegation":"topsis"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeepSecrets(t *testing.T) {
	old := parse(t, withSecrets)
	_, oldPatch := SplitSecrets(old)
	tests := []struct{ name, change, want string }{
		{"what is empty keeps its value, what is gone goes, what is new replaces",
			`{"name":"svc","environment":{"secrets":{"pw":"","fresh":"new"}},"storage_providers":{"s3":{"x":{"access_key":"replaced","region":"us"}},"azure":{"d":{"account_key":""}}}}`,
			`{"environment":{"secrets":{"fresh":"new","pw":"hunter2-env"}},"storage_providers":{"s3":{"x":{"access_key":"replaced","secret_key":"hunter2-sk","session_token":"hunter2-st"}},"azure":{"d":{"account_key":"hunter2-az"}}}}`},
		{"an array of an unknown provider is kept as it was, or not at all",
			`{"name":"svc","storage_providers":{"azure":{"d":{"more":[{"sas_url":"","region":"r"}]},"e":{}}}}`,
			`{"storage_providers":{"azure":{"d":{"account_key":"hunter2-az","more":[{"sas_url":"hunter2-sas","region":"r"}]}}}}`},
		{"an array that changed is the user's",
			`{"name":"svc","storage_providers":{"azure":{"d":{"account_key":"x","more":[{"sas_url":"","region":"other"}]}}}}`,
			`{"storage_providers":{"azure":{"d":{"account_key":"x"}}}}`},
		{"nothing is kept for what is gone", `{"name":"svc"}`, `{}`},
		{"headers by member, in any order",
			`{"name":"svc","federation":{"members":[{"cluster_id":"z","service_name":"s","headers":{"X-Key":""}},{"type":"OSCAR","cluster_id":"b","service_name":"s","headers":{"X-Key":"","Empty":""},"priority":7}]}}`,
			`{"federation":{"members":[{"cluster_id":"z","service_name":"s","headers":{"X-Key":""}},{"type":"OSCAR","cluster_id":"b","service_name":"s","priority":7,"headers":{"Empty":"","X-Key":"hunter2-header"}}]}}`},
		{"a header that is given stays",
			`{"name":"svc","federation":{"members":[{"cluster_id":"b","service_name":"s","headers":{"X-Key":"mine"}}]}}`,
			`{"federation":{"members":[{"cluster_id":"b","service_name":"s","headers":{"X-Key":"mine"}}]}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			public, patch := SplitSecrets(parse(t, tc.change))
			got, err := KeepSecrets(public, patch, oldPatch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(string(got), "hunter2-token") {
				t.Error("the token of another life was kept")
			}
		})
	}
	if _, err := KeepSecrets(old, json.RawMessage(`{`), nil); err == nil {
		t.Error("a broken patch was accepted")
	}
	if _, err := KeepSecrets(old, nil, json.RawMessage(`{`)); err == nil {
		t.Error("a broken old patch was accepted")
	}
}
