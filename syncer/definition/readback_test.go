package definition

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

func tree(t *testing.T, doc string) map[string]any {
	t.Helper()
	v, err := DecodeObject([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestReadBackIgnoresWhatChangesByItself(t *testing.T) {
	hash := func(doc string) string {
		t.Helper()
		h, err := ReadBack(tree(t, doc))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(`{"name":"s","token":"a","labels":{"x":"1","owner_name":"oscar"},"volume_status":{"phase":"pending"},"n":1}`)
	for _, same := range []string{
		`{"token":"b","name":"s","labels":{"x":"1"},"n":1}`,
		`{ "n": 1, "labels": {"owner_name":"somebody","x":"1"}, "name": "s", "volume_status": {"phase":"ready"}, "deployment": {} }`,
	} {
		if hash(same) != base {
			t.Errorf("%s has another fingerprint", same)
		}
	}
	for _, other := range []string{
		`{"name":"s","labels":{"x":"2"},"n":1}`,
		`{"name":"s","labels":{"x":"1"},"n":2}`,
		`{"name":"s","labels":{"x":"1"},"n":1,"image":"i"}`,
	} {
		if hash(other) == base {
			t.Errorf("%s has the same fingerprint", other)
		}
	}
}

func TestDifference(t *testing.T) {
	const asked = `{"name":"svc","image":"i","cpu":"0.5","memory":"","enable_gpu":false,"log_level":"debug","script":"a\r\nb",
		"token":"t","owner":"me","namespace":"ns","cluster_id":"c","vo":"v","x_unknown":{"kept":true},"allowed_users":[" u ",""],
		"annotations":{"a":"1"},"labels":{"l":"1"},"expose":{"api_port":[80],"min_scale":0},"synchronous":{"max_scale":3},
		"environment":{"variables":{"A":"1"},"secrets":{"K":"value"}},
		"federation":{"group_id":"g","topology":"mesh","members":[]},
		"storage_providers":{"minio":{"default":{"access_key":"k"}}},
		"input":[{"storage_provider":"minio","path":" in/ ","suffix":[]}],"output":[{"storage_provider":"minio.default","path":"/b/out/"}]}`
	const got = `{"name":"svc","image":"i","cpu":"0.5","memory":"256Mi","enable_gpu":false,"log_level":"DEBUG","script":"a\nb",
		"token":"t","owner":"cluster_admin","namespace":"oscar-svc","cluster_id":"","vo":"","allowed_users":["u"],
		"annotations":{"a":"1","b":"2"},"labels":{"l":"1","oscar_service":"svc"},"expose":{"api_port":[80],"min_scale":0,"set_auth":false},
		"synchronous":{"min_scale":0,"max_scale":3.0},
		"environment":{"variables":{"A":"1"},"secrets":{"K":""}},
		"federation":{"group_id":"g","topology":"mesh"},
		"storage_providers":{"minio":{"default":{"access_key":"hidden"}}},
		"input":[{"storage_provider":"minio","path":"svc/in"}],"output":[{"storage_provider":"minio.default","path":"b/out"}]}`
	if field := Difference(tree(t, asked), tree(t, got)); field != "" {
		t.Errorf("what OSCAR normalises is a difference: %s", field)
	}
	for field, change := range map[string]string{
		"image":                 `{"image":"other"}`,
		"cpu":                   `{"cpu":"1"}`,
		"log_level":             `{"log_level":"INFO"}`,
		"script":                `{"script":"c"}`,
		"token":                 `{"token":"other"}`,
		"allowed_users":         `{"allowed_users":["u","v"]}`,
		"annotations":           `{"annotations":{"b":"2"}}`,
		"labels":                `{"labels":{"l":"2"}}`,
		"expose":                `{"expose":{"api_port":[81]}}`,
		"synchronous":           `{"synchronous":{"max_scale":4}}`,
		"environment.variables": `{"environment":{"variables":{"A":"1","B":"2"},"secrets":{"K":""}}}`,
		"environment.secrets":   `{"environment":{"variables":{"A":"1"},"secrets":{}}}`,
		"federation":            `{"federation":{"group_id":"g","topology":"none"}}`,
		"input":                 `{"input":[]}`,
		"output":                `{"output":[{"storage_provider":"minio.default","path":"b/out"},{"storage_provider":"minio.default","path":"c/out"}]}`,
	} {
		changed := tree(t, got)
		maps.Copy(changed, tree(t, change))
		if got := Difference(tree(t, asked), changed); got != field {
			t.Errorf("after %s the difference is %q, want %q", change, got, field)
		}
	}
	// OSCAR leaves out a script that is empty. It matters unless the image's command is run.
	emptied := tree(t, got)
	delete(emptied, "script")
	for own, want := range map[string]string{"false": "script", "true": ""} {
		web := tree(t, `{"script":"a","expose":{"api_port":[80],"default_command":`+own+`}}`)
		if field := Difference(web, emptied); field != want {
			t.Errorf("without its script, and with default_command %s, the difference is %q, want %q", own, field, want)
		}
	}
	// Without a bucket in its path, an output of a worker goes to the origin's; and one that was made without buckets is
	// as good as one that was made with them.
	worker := tree(t, `{"name":"w","federation":{"topology":"none"},"annotations":{"oscar.grycap/origin-cluster":"a","oscar.grycap/origin-service":"o"},"output":[{"storage_provider":"minio.default","path":"out"}]}`)
	shown := tree(t, `{"federation":{"topology":"mesh"},"annotations":{"oscar.grycap/origin-cluster":"a","oscar.grycap/origin-service":"o"},"output":[{"storage_provider":"minio.default","path":"o/out"}]}`)
	if field := Difference(worker, shown); field != "" {
		t.Errorf("a worker differs in %s", field)
	}
	// In another store it goes to the one that is named as the worker.
	for _, provider := range []string{"s3.far", "minio.far"} {
		worker["output"] = []any{map[string]any{"storage_provider": provider, "path": "out"}}
		shown["output"] = []any{map[string]any{"storage_provider": provider, "path": "w/out"}}
		if field := Difference(worker, shown); field != "" {
			t.Errorf("a worker with an output at %s differs in %s", provider, field)
		}
	}
}

// TestDifferenceWithItself: whatever is asked, itself is what was asked.
func TestDifferenceWithItself(t *testing.T) {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n }))
	rapid.Check(t, func(t *rapid.T) {
		doc := map[string]any{}
		for _, key := range []string{"name", "image", "cpu", "log_level", "script", "expose", "input", "output", "mount", "annotations", "environment", "federation", "allowed_users", "other"} {
			switch rapid.IntRange(0, 3).Draw(t, "kind of "+key) {
			case 0:
				doc[key] = leaf.Draw(t, key)
			case 1:
				doc[key] = rapid.SliceOfN(leaf, 0, 3).Draw(t, key)
			case 2:
				doc[key] = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "path", "variables", "secrets"}), leaf, 0, 3).Draw(t, key)
			}
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := DecodeObject(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := DecodeObject(raw)
		if field := Difference(asked, got); field != "" {
			t.Fatalf("%s differs from itself in %s", raw, field)
		}
	})
}

func newDefinition(t *testing.T, service, patch string) (*Definition, *record.Desired, *seal.Identity) {
	t.Helper()
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Seal(seal.Header{Purpose: seal.PurposeSpec, Cluster: "c", UID: uid, Generation: 2}, []byte(patch), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	d := desired(record.IntentApply, func(d *record.Desired) { d.Mark = record.Mark("secret-token") })
	def, err := open(id, "c", d, &record.Spec{Service: json.RawMessage(service), Sealed: sealed, Left: []string{"left"}}, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return def, d, id
}

func TestDefinitionBody(t *testing.T) {
	def, _, _ := newDefinition(t,
		`{"name":"s","namespace":"oscar","x_unknown":[1.50],"annotations":{"a":"1"},"environment":{"secrets":{"K":""}},"input":[{"storage_provider":"minio","path":"b/in"}],"mount":{"storage_provider":"minio.default","path":"m"}}`,
		`{"token":"secret-token","environment":{"secrets":{"K":"secret-value"}}}`)
	full, err := def.Body(nil, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"token":"secret-token"`, `"K":"secret-value"`, `"owner":"cluster_admin"`, `"x_unknown":[1.50]`, `"path":"b/in"`, `"annotations":{"a":"1"}`} {
		if !strings.Contains(string(full), want) {
			t.Errorf("body %s\nlacks %s", full, want)
		}
	}
	if strings.Contains(string(full), "namespace") {
		t.Errorf("body %s\nnames a namespace", full)
	}
	stands := &manager.Service{Owner: "somebody", JSON: json.RawMessage(`{"vo":"physics","labels":{"uid":"some","x":"1","kueue.x-k8s.io/queue-name":"q"}}`)}
	bare, err := def.Body(stands, false, false, false, []string{"b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"input":[]`, `"output":[]`, `"mount":{"storage_provider":"","path":""}`, `"owner":"somebody"`, `"oscarfed/buckets":"b,c"`,
		`"vo":"physics"`, `"labels":{"kueue.x-k8s.io/queue-name":"q","uid":"some"}`} {
		if !strings.Contains(string(bare), want) {
			t.Errorf("body %s\nlacks %s", bare, want)
		}
	}
	if got := def.DataBuckets(); len(got) != 1 || got[0] != "b" {
		t.Errorf("buckets of data %v, want b alone: a mount is the user's own", got)
	}
	if got := manager.Scrub("x secret-value y secret-token z", def.Secrets...); got != "x *** y *** z" {
		t.Errorf("scrubbed %q", got)
	}
}

func TestDefinitionOfAnotherIsRefused(t *testing.T) {
	_, d, id := newDefinition(t, `{"name":"s"}`, `{"token":"secret-token"}`)
	sealTo := func(h seal.Header, patch string) *record.Spec {
		sealed, err := seal.Seal(h, []byte(patch), id.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		return &record.Spec{Service: json.RawMessage(`{"name":"s"}`), Sealed: sealed}
	}
	ours := seal.Header{Purpose: seal.PurposeSpec, Cluster: "c", UID: uid, Generation: 2}
	other := func(change func(*seal.Header)) seal.Header { h := ours; change(&h); return h }
	for name, spec := range map[string]*record.Spec{
		"cluster":    sealTo(other(func(h *seal.Header) { h.Cluster = "d" }), `{"token":"secret-token"}`),
		"uid":        sealTo(other(func(h *seal.Header) { h.UID = "x" }), `{"token":"secret-token"}`),
		"purpose":    sealTo(other(func(h *seal.Header) { h.Purpose = "x" }), `{"token":"secret-token"}`),
		"generation": sealTo(other(func(h *seal.Header) { h.Generation = 1 }), `{"token":"secret-token"}`),
		"token":      sealTo(ours, `{"token":"another"}`),
		"type":       sealTo(ours, `{"token":"secret-token","input":"none"}`),
	} {
		if _, err := open(id, "c", d, spec, nil, nil, now); err == nil {
			t.Errorf("a spec with another %s was accepted", name)
		} else if strings.Contains(err.Error(), "secret-token") || strings.Contains(err.Error(), "another\"") {
			t.Errorf("%s: the error holds the token: %v", name, err)
		}
	}
}

func TestDetachedBody(t *testing.T) {
	body, err := DetachedBody(json.RawMessage(`{"name":"s","token":"t","owner":"","namespace":"ns","image":"i",
		"annotations":{"a":"1"},"isolation_level":"USER","bucket_list":["b-u"],"volume":{"name":"v"},"clusters":{"x":{"auth_password":"p"}},
		"environment":{"variables":{"A":"1"},"secrets":{"K":""}},"federation":{"group_id":"g","members":[{"type":"oscar"}]},
		"input":[{"storage_provider":"minio","path":"b/in"}],"output":[],"mount":{"storage_provider":"minio","path":"m"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var s oscar.Service
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	switch {
	case len(s.Input)+len(s.Output) > 0 || s.Mount.Path != "" || s.Mount.Provider != "":
		t.Errorf("still attached: %s", body)
	case len(s.Environment.Secrets) > 0:
		t.Errorf("would overwrite the Secret: %s", body)
	case s.Environment.Variables["A"] != "1" || s.Annotations["a"] != "1" || s.Volume == nil || s.Token != "t":
		t.Errorf("has lost what must stay: %s", body)
	case s.IsolationLevel != "" || len(s.BucketList) != 1:
		t.Errorf("OSCAR would delete the users' buckets: %s", body)
	case s.Owner != "cluster_admin" || s.Namespace != "" || len(s.Clusters) > 0 || len(s.Federation.Members) > 0:
		t.Errorf("sends what it must not: %s", body)
	}
}

// partsOf is the spec of a replica that shares its definition, and the parts.
func partsOf(t *testing.T, id *seal.Identity, key seal.Key, own string) (*record.Spec, *parts.Set) {
	t.Helper()
	written := map[string]record.Part{}
	spec := &record.Spec{Changes: json.RawMessage(`{"name":"s","memory":null}`)}
	secrets, made, err := parts.Secrets("", []byte(`{"environment":{"secrets":{"K":"secret-value"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	texts := append(parts.Text("", []byte(`{"name":"common","memory":"1Gi","script":"long"}`)), parts.Text("", []byte(`{"cpu":"2"}`))...)
	for _, p := range append(texts, secrets...) {
		written[record.PartKey("fed", p.Name)] = p.Rec
		spec.Parts = append(spec.Parts, p.Name)
	}
	if key == (seal.Key{}) {
		key = made
	}
	payload := own
	if payload == "" {
		payload = `{"key":"` + key.Secret() + `","changes":{"token":"secret-token"}}`
	}
	spec.Sealed, err = seal.Seal(seal.Header{Purpose: seal.PurposeSpecChanges, Cluster: "c", UID: uid, Generation: 2}, []byte(payload), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	set, err := parts.Read(t.Context(), func(_ context.Context, key string) (store.KV, error) {
		value, err := record.Encode(written[key])
		return store.KV{Key: key, Value: value}, err
	}, "fed", spec.Parts)
	if err != nil {
		t.Fatal(err)
	}
	return spec, set
}

func TestADefinitionThatIsShared(t *testing.T) {
	_, d, id := newDefinition(t, `{"name":"s"}`, `{"token":"secret-token"}`)
	spec, set := partsOf(t, id, seal.Key{}, "")
	def, err := open(id, "c", d, spec, set, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	body, err := def.Body(nil, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name":"s"`, `"script":"long"`, `"cpu":"2"`, `"token":"secret-token"`, `"K":"secret-value"`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("body %s\nlacks %s", body, want)
		}
	}
	if strings.Contains(string(body), "memory") {
		t.Errorf("body %s\nhas what this replica is not sent", body)
	}
	if got := manager.Scrub("x secret-value y secret-token z", def.Secrets...); got != "x *** y *** z" {
		t.Errorf("scrubbed %q", got)
	}
	for name, c := range map[string]struct {
		key  seal.Key
		own  string
		want error
	}{
		"key":   {key: seal.NewKey(), want: seal.ErrUndecryptable},
		"text":  {own: `{"key":"secret-token"}`, want: ErrSpec},
		"form":  {own: `secret-token`, want: ErrSpec},
		"token": {own: `{"key":"` + seal.NewKey().Secret() + `","changes":{}}`, want: seal.ErrUndecryptable},
	} {
		spec, set := partsOf(t, id, c.key, c.own)
		if _, err := open(id, "c", d, spec, set, nil, now); !errors.Is(err, c.want) || strings.Contains(err.Error(), "secret-token") {
			t.Errorf("with another %s: %v", name, err)
		}
	}
	// A version that does not know parts refuses the spec for its purpose.
	if _, err := open(id, "c", d, spec, nil, nil, now); !errors.Is(err, seal.ErrMismatch) {
		t.Errorf("taken for a spec without parts: %v", err)
	}
}
