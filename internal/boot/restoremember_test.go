package boot

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// restore runs restore-member for a member, from a backup or without.
func (e *etcdMembers) restore(i int, backup string) (status int, out string) {
	e.t.Helper()
	common := filepath.Join(e.dir, member3(i)+"-common.yaml")
	args := []string{"restore-member", member3(i), "--member-config", common, "--log-level", "error"}
	if backup != "" {
		args = append(args, "--backup", backup)
	}
	var said bytes.Buffer
	status = EtcdMain(e.t.Context(), args, nil, &said, &said)
	return status, said.String()
}

// put writes a record, or a key with any text.
func put(t *testing.T, client *clientv3.Client, key string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	answered(t, func() (*clientv3.PutResponse, error) { return client.Put(t.Context(), key, string(data)) })
}

// answered repeats a request until it is answered: a member that stops answers no gRPC for a moment.
func answered[R any](t *testing.T, ask func() (R, error)) (answer R) {
	t.Helper()
	var err error
	await.Until(t, "etcd answers", func() bool {
		if answer, err = ask(); err != nil {
			t.Logf("it is asked again: %v", err)
		}
		return err == nil
	})
	return answer
}

func get(t *testing.T, client *clientv3.Client, key string) *clientv3.GetResponse {
	t.Helper()
	return answered(t, func() (*clientv3.GetResponse, error) { return client.Get(t.Context(), key) })
}

// judge demands that the members are one cluster with what was backed up, and says which and in which epoch.
func (e *etcdMembers) judge(client *clientv3.Client) (cluster uint64, epoch string) {
	e.t.Helper()
	if got := e.ids(client); len(got) != 3 {
		e.t.Errorf("the members are %v", got)
	}
	for _, url := range e.clients {
		client.SetEndpoints(url)
		kept, later := get(e.t, client, "/kept"), get(e.t, client, "/later")
		if len(kept.Kvs) != 1 || len(later.Kvs) != 0 {
			e.t.Errorf("%s has not what was backed up: %v, %v", url, kept.Kvs, later.Kvs)
		}
		if cluster != 0 && kept.Header.ClusterId != cluster {
			e.t.Errorf("%s is of another cluster", url)
		}
		cluster = kept.Header.ClusterId
	}
	client.SetEndpoints(e.clients...)
	resp := get(e.t, client, record.MetaKey)
	if len(resp.Kvs) != 1 {
		e.t.Fatal(resp)
	}
	meta, err := store.Decode[record.Meta](store.KV{Key: record.MetaKey, Value: resp.Kvs[0].Value})
	if err != nil || len(meta.Epochs) != 1 || meta.Epochs[0] != "first" {
		e.t.Errorf("the store is of %+v, %v", meta, err)
	}
	return cluster, meta.Epoch
}

// A member was restored, and the others still have their data: there are never two clusters, and in the end there
// is one with what was backed up.
func TestThreeMembersAreRestoredFromOneBackup(t *testing.T) {
	t.Parallel()
	e := newMembers(t)
	authority := []string{"--etcd-authority", e.users}
	e.starts(authority, 0, 1, 2)
	if status, out := e.etcd("setup", "--ca-out", e.users); status != exitDone {
		t.Fatalf("setup: %s", out)
	}
	client := e.root()
	put(t, client, record.MetaKey, record.Meta{V: 1, Schema: 1, ControlPlane: "cp", Epoch: "first"})
	put(t, client, "/kept", "yes")
	before := e.ids(client)
	backup := filepath.Join(t.TempDir(), "backup")
	var said bytes.Buffer
	args := []string{backup, "--etcd-endpoints", e.clients[2], "--etcd-ca-file", e.authority.CAFile, "--etcd-authority", e.users, "--data-dir", t.TempDir()}
	if status := BackupMain(t.Context(), args, nil, &said, &said); status != exitDone {
		t.Fatalf("%s", &said)
	}
	put(t, client, "/later", "yes")

	for i, file := range []string{backup, ""} {
		if status, out := e.restore(i, file); status != exitFailed || !strings.Contains(out, "in use") {
			t.Errorf("beside %s, which runs: %d %s", member3(i), status, out)
		}
	}
	e.stop(1)
	e.stop(2)
	e.lose(0)
	for range 2 { // it is repeated
		if status, out := e.restore(0, backup); status != exitDone {
			t.Fatalf("%d %s", status, out)
		}
	}
	e.waits(0, "these do not say that they have no data: etcd-1, etcd-2", authority...)
	e.starts(nil, 1, 2)
	e.waits(0, "another member runs with data of before", authority...)
	e.stop(1)
	e.stop(2)
	for _, i := range []int{1, 2, 2} {
		if status, out := e.restore(i, ""); status != exitDone {
			t.Fatalf("%d %s", status, out)
		}
	}
	if kept, err := filepath.Glob(e.data(2) + ".before-*/member/wal"); err != nil || len(kept) != 1 {
		t.Errorf("the data of before is in %v, %v", kept, err)
	}
	e.starts(authority, 0, 1, 2)
	cluster, epoch := e.judge(client)
	for name, id := range e.ids(client) {
		if before[name] == id {
			t.Errorf("%s is taken for the one that it was", name)
		}
	}

	// The one that was restored starts by itself from now on, also when it starts first.
	e.stop(0)
	e.stop(1)
	e.stop(2)
	e.starts(nil, 0, 1, 2)
	put(t, client, "/later", "yes")
	for i := range 3 {
		e.stop(i)
	}
	// Once more, and of all that are there.
	for i, file := range []string{backup, "", ""} {
		if status, out := e.restore(i, file); status != exitDone || !strings.Contains(out, ".before-") {
			t.Fatalf("%d %s", status, out)
		}
	}
	e.starts(authority, 0, 1, 2)
	if again, newer := e.judge(client); again == cluster || newer == epoch {
		t.Errorf("the cluster was %x in epoch %s, and is %x in %s", cluster, epoch, again, newer)
	}
	if _, err := os.Stat(filepath.Join(e.data(0), restoredMark)); !os.IsNotExist(err) {
		t.Errorf("it would wait for the others at each start: %v", err)
	}
}
