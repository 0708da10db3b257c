package e2e_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// canaries are secrets of every kind that a definition can hold.
var canaries = []string{
	"canary-environment-secret", "canary-minio-secret-key", "canary-minio-access-key", "canary-s3-secret-key",
	"canary-webdav-password", "canary-header-token", "canary-cluster-password", "canary-refresh-token",
}

//go:embed testdata/secrets.json
var secretive string

// TestSecretsAreNowhereToBeRead looks for canary secrets, and for the service
// tokens, in etcd's database and write-ahead log, in every log and in every answer.
func TestSecretsAreNowhereToBeRead(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(o *world.Options) { o.Secrets = canaries })
		var answers strings.Builder
		ask := func(method, path, body string, header ...string) {
			_, h, text := w.Do(method, path, body, header...)
			answers.WriteString(text)
			for _, v := range h {
				answers.WriteString(strings.Join(v, " "))
			}
		}
		ask("POST", "/system/services", strings.Replace(secretive, `"KEY":"canary-environment-secret"`, `"KEY":["canary-environment-secret"]`, 1),
			"Accept", "application/problem+json")
		ask("POST", "/system/services", strings.Replace(secretive, `"mesh"`, `"ring"`, 1))
		if _, err := create(w, secretive); err != nil {
			t.Fatal(err)
		}
		var tokens []string
		for i, id := range []string{a, b, c} {
			v, ok := w.Cluster(id).Sim.Service(names[i])
			if !ok || v.Secrets["KEY"] != "canary-environment-secret" {
				t.Fatalf("%s did not get its secret: %+v", id, v)
			}
			if _, leaked := v.Secrets["refresh_token"]; leaked || strings.Contains(string(v.JSON), "refresh_token") {
				t.Errorf("%s got the refresh token: OSCAR would put it into pods", id)
			}
			tokens = append(tokens, v.Token)
		}
		for _, path := range []string{
			"/system/services", "/system/services/grayifyr0", "/system/services/grayifyr1", "/system/replicas/grayifyr0",
			"/system/federations", "/system/federations/grayifyr0", "/system/clusters", "/system/clusters/" + a, "/system/info", "/health",
			"/system/support",
		} {
			ask("GET", path, "")
		}
		ask("POST", "/system/services", secretive)
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, secret := range canaries {
			if strings.Contains(answers.String(), secret) {
				t.Errorf("%s is in an answer", secret)
			}
		}
		for _, secret := range append(tokens, append([]string{world.Password}, canaries...)...) {
			if strings.Contains(w.Log.String(), secret) {
				t.Errorf("%s is in a log", secret)
			}
			if file := fileWith(t, w.EtcdDir, secret); file != "" {
				t.Errorf("%s is in %s", secret, file)
			}
		}
	})
}

// TestManySecretsReachEveryCluster: more than an envelope holds, through the etcd and the sockets that ship.
func TestManySecretsReachEveryCluster(t *testing.T) {
	w := newWorld(t, func(o *world.Options) {
		o.Wire, o.Guarded, o.Secrets = nil, true, []string{"canary-environment-secret", "canary-many-"}
	})
	w.Unhurried()
	s := world.Service(t, body)
	for i := range 5 {
		s.Environment.Secrets[fmt.Sprint("LONG", i)] = strings.Repeat("canary-many-", 8<<10)
	}
	s.Secrets = map[string]string{}
	for i := range 16 {
		s.Secrets[fmt.Sprint("LONG", i)] = strings.Repeat("canary-many-", 1<<10)
	}
	if _, err := w.Client.CreateService(t.Context(), s, client.CreateOptions{Wait: limit}); err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{a, b, c} {
		v, ok := w.Cluster(id).Sim.Service(names[i])
		if !ok || !maps.Equal(v.Secrets, s.Environment.Secrets) {
			t.Errorf("%s got %d secrets", id, len(v.Secrets))
		}
	}
	if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestAnUnsealedSecretIsFound shows that the search above can fail.
func TestAnUnsealedSecretIsFound(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := world.New(t, world.Options{Wire: wire.New(1), Clusters: []string{a}})
		_, err := w.Store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.HistoryKey("planted", 1), record.History{V: 1, Service: []byte(`{"x":"canary-planted"}`)})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if fileWith(t, w.EtcdDir, "canary-planted") == "" {
			t.Error("a secret that stands in etcd in clear was not found")
		}
	})
}

// fileWith names a file below dir that holds the text, or is empty.
func fileWith(t *testing.T, dir, text string) string {
	t.Helper()
	found := ""
	read := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || found != "" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		if bytes.Contains(data, []byte(text)) {
			found = path
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read == 0 {
		t.Fatalf("there are no files in %s", dir)
	}
	return found
}
