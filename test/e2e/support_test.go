package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// Who helps gets records, metrics and the log of a federation, and nothing that its users entrusted to it:
// no secret or token, and no script, variable or event either.
func TestASupportBundleHasNothingThatWasEntrusted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const log = `{"msg":"the last line"}`
		w := withUsers(t, func(o *world.Options) {
			o.ControlPlane = func(c *controlplane.Config) { c.RecentLog = func() []byte { return []byte(log + "\n") } }
		})
		entrusted := []string{"canary-environment-secret", "canary-script", "canary-variable", "canary-event", "canary-annotation", "canary-refresh-token"}
		definition := strings.NewReplacer(
			`#!/bin/sh`, `#!/bin/sh # canary-script`,
			`"environment":{`, `"annotations":{"a":"canary-annotation"},"environment":{"variables":{"V":"canary-variable"},`).Replace(body)
		for _, word := range []string{"canary-script", "canary-annotation", "canary-variable"} {
			if !strings.Contains(definition, word) {
				t.Fatalf("the definition has no %s: %s", word, definition)
			}
		}
		if _, err := create(w, definition); err != nil {
			t.Fatal(err)
		}
		job, err := w.Client.SubmitJob(t.Context(), names[0], []byte(`{"secret":"canary-event"}`), client.JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status, _, text := w.Do("PUT", "/system/replicas/"+names[0]+"/refresh-token", `{"refresh_token":"canary-refresh-token"}`); status >= 500 {
			t.Fatalf("a refresh token: %d %s", status, text)
		}

		files, err := supportOf(t, w.Client)
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		for name, data := range files {
			all.Write(data)
			if strings.HasPrefix(name, "records-") {
				eachRecord(t, data)
			}
		}
		for _, word := range entrusted {
			if strings.Contains(all.String(), word) {
				t.Errorf("it has %s", word)
			}
		}
		for _, word := range []string{"/federations/", "/jobs/" + job.ID, "/c/" + a + "/desired/services/" + names[0], "/c/" + a + "/observed/cluster", `"group_id":"` + names[0][:len(names[0])-2], "oscarfed_etcd_db_size_bytes", log} {
			if !strings.Contains(all.String(), word) {
				t.Errorf("it has no %s", word)
			}
		}
		var about struct {
			Records map[string]int `json:"records"`
		}
		if err := json.Unmarshal(files["control-plane.json"], &about); err != nil || about.Records["job"] != 1 || about.Records["desired_service"] != 3 {
			t.Errorf("%v: %s", err, files["control-plane.json"])
		}
		if problems, ok := files["problems.txt"]; ok {
			t.Errorf("there were problems: %s", problems)
		}

		_, err = supportOf(t, w.WithToken(w.Token(alice, nil)))
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Problem.Status != http.StatusForbidden || e.Problem.Code != v1.CodeForbidden {
			t.Errorf("a user: %v", err)
		}
	})
}

// supportOf reads all files.
func supportOf(t *testing.T, c *client.Client) (map[string][]byte, error) {
	t.Helper()
	files := map[string][]byte{}
	err := c.Support(t.Context(), func(name string, content io.Reader) error {
		data, err := io.ReadAll(content)
		files[name] = data
		return err
	})
	return files, err
}

// eachRecord demands that each line is a record of a key that is told.
func eachRecord(t *testing.T, lines []byte) {
	t.Helper()
	for text := range bytes.Lines(lines) {
		var line struct {
			Key      string `json:"key"`
			Revision int64  `json:"revision"`
			Bytes    int    `json:"bytes"`
			Record   any    `json:"record"`
		}
		if err := json.Unmarshal(text, &line); err != nil || line.Key == "" || line.Revision == 0 || line.Bytes == 0 {
			t.Errorf("%v: %s", err, text)
		}
		if fmt.Sprint(line.Record) == "no JSON" {
			t.Errorf("%s is no JSON", line.Key)
		}
	}
}
