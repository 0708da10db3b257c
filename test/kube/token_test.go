package kube_test

import (
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/kubetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestARefreshTokenRestsInASecretOfItsOwner: from the API it goes to a Secret in its
// owner's namespace and nowhere else; what the issuer gives in its place is there
// before it is used, also by the next syncer; and with the service it is gone.
func TestARefreshTokenRestsInASecretOfItsOwner(t *testing.T) {
	t.Parallel()
	const services, alice = "tokens", "62bb11b4/Alice@egi.eu"
	open := below(t, services)
	namespace := shared.Cluster(t).Namespace(t, kube.Namespace(services, alice)) // as an OSCAR does when she first comes
	iss := issuer.New(t, "")
	iss.Grant(issuer.Grants{Rotate: true, ClientID: "oscarfed"})
	w := world.New(t, world.Options{Clusters: []string{cluster}, Names: []string{services}, Issuer: iss, Syncer: func(c *syncer.Config) {
		c.Kube, c.Issuers = open(c.Logger), []token.Issuer{{URL: iss.URL, ClientID: "oscarfed"}}
	}})
	w.AddUser(alice)
	user := w.WithToken(w.Token(alice, nil))
	first := iss.RefreshToken(alice)
	definition := world.Service(t, fmt.Sprintf(`{"name":%q,"cluster_id":%q,"image":"ghcr.io/grycap/imagemagick","script":"true",
		"environment":{"secrets":{"refresh_token":%q}},"input":[{"storage_provider":"minio.default","path":"%s/in"}]}`, services, cluster, first, services))
	if _, err := user.CreateService(t.Context(), definition, client.CreateOptions{Wait: kubetest.Patience}); err != nil {
		t.Fatal(err)
	}
	status, err := user.RefreshToken(t.Context(), services, "")
	if err != nil {
		t.Fatal(err)
	}
	uid := status.UID
	// kept is what the Secret has for the federation; empty when there is none.
	kept := func() string {
		t.Helper()
		secret, err := shared.Cluster(t).Client().CoreV1().Secrets(namespace).Get(t.Context(), kube.TokenSecret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		var rest struct {
			Refresh string `json:"refresh_token"`
		}
		if err := json.Unmarshal(secret.Data[uid], &rest); err != nil {
			t.Fatalf("the Secret has %d keys, and not that of federation %s: %v", len(secret.Data), uid, err)
		}
		return rest.Refresh
	}
	w.Eventually("the token rests in the Secret, and has left the store", func() bool {
		s, err := user.RefreshToken(t.Context(), services, "")
		if err != nil || s.Token.State != "stored" || kept() != first {
			return false
		}
		kv, err := w.Store.Get(t.Context(), record.HoldKey(cluster, uid))
		if err != nil {
			t.Fatal(err)
		}
		order, err := store.Decode[record.Hold](kv)
		return err == nil && order.Refresh == ""
	})

	// renewed makes the service vanish when her access token is gone. It is made again
	// with one that the issuer gives for the refresh token.
	renewed := func(before string, exchanges int) string {
		t.Helper()
		if _, err := w.Store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Delete(record.TokensKey(cluster, uid))
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		w.DeleteDirectly(w.Cluster(cluster).URL + "/system/services/" + services)
		w.Eventually("the service is made again, as hers", func() bool {
			v, ok := w.Cluster(cluster).Sim.Service(services)
			return ok && v.Owner == alice
		})
		if n, reuses := iss.Exchanges(); n != exchanges || reuses != 0 {
			t.Errorf("%d exchanges, want %d; %d uses of a used token", n, exchanges, reuses)
		}
		now := kept()
		if now == before || now == "" {
			t.Error("what the issuer gave in place of the token is not in the Secret")
		}
		return now
	}
	second := renewed(first, 1)
	w.Cluster(cluster).Stop()
	if kept() != second {
		t.Error("the Secret was changed by a syncer that stopped")
	}
	w.Cluster(cluster).Start()
	third := renewed(second, 2)

	if _, err := user.DeleteService(t.Context(), services, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Her access token stays with the order to delete, which has no end where Kubernetes has not what OSCAR shows.
	w.Eventually("with the service it is revoked and gone, and so is the Secret", func() bool {
		return iss.Revoked(third) && kept() == ""
	})
}
