package kube_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/syncer/kube"
)

// owner makes the namespace of an owner of this name.
func owner(t *testing.T, name string) string {
	t.Helper()
	shared.Cluster(t).Namespace(t, kube.Namespace(kube.ServicesNamespace, name))
	return name
}

func token(serial int64) kube.Token {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123e6, time.UTC)
	return kube.Token{Refresh: fmt.Sprintf("refresh-%d", serial), Issuer: "https://aai.example.org", ClientID: "oscar",
		IssuedAt: at, StoredAt: at.Add(time.Second), Serial: serial}
}

// kept is the Secret of an owner's namespace, or nil.
func kept(t *testing.T, owner string) *corev1.Secret {
	t.Helper()
	list, err := shared.Cluster(t).Client().CoreV1().Secrets(kube.Namespace(kube.ServicesNamespace, owner)).
		List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + kube.TokenSecret})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func TestTokenIsKeptAndReplacedAndForgotten(t *testing.T) {
	t.Parallel()
	client, owner := open(t), owner(t, "keeper1@egi.eu")
	if _, err := client.Token(t.Context(), owner, "f"); !errors.Is(err, kube.ErrNoToken) {
		t.Errorf("nothing was put: %v", err)
	}
	for serial := range int64(3) {
		want := token(serial + 1)
		for range 2 { // the answer to the first was lost
			if err := client.PutToken(t.Context(), owner, "f", want); err != nil {
				t.Fatal(err)
			}
		}
		got, err := client.Token(t.Context(), owner, "f")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("read back (-put +got):\n%s", diff)
		}
	}
	if s := kept(t, owner); s == nil || s.Labels["app.kubernetes.io/managed-by"] != "oscarfed-syncer" {
		t.Errorf("the Secret is not labelled ours: %v", s)
	}
	if err := client.PutToken(t.Context(), owner, "another", token(1)); err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteToken(t.Context(), owner, "f", 2); !errors.Is(err, kube.ErrTokenChanged) {
		t.Errorf("deletion of an earlier serial: %v", err)
	}
	for range 2 {
		if err := client.DeleteToken(t.Context(), owner, "f", 3); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Token(t.Context(), owner, "f"); !errors.Is(err, kube.ErrNoToken) {
		t.Errorf("after its deletion: %v", err)
	}
	if _, err := client.Token(t.Context(), owner, "another"); err != nil {
		t.Errorf("another federation's: %v", err)
	}
	if err := client.DeleteToken(t.Context(), owner, "another", 1); err != nil {
		t.Fatal(err)
	}
	if s := kept(t, owner); s != nil {
		t.Error("an empty Secret is left")
	}
}

// TestPutTokenLosesNoRotation: what was read before somebody's rotation replaces
// nothing.
func TestPutTokenLosesNoRotation(t *testing.T) {
	t.Parallel()
	client, owner := open(t), owner(t, "keeper2@egi.eu")
	clients := []*kube.Client{client, open(t)} // two processes
	if err := client.PutToken(t.Context(), owner, "f", token(2)); !errors.Is(err, kube.ErrTokenChanged) {
		t.Errorf("a second one where there is no first: %v", err)
	}
	if err := client.PutToken(t.Context(), owner, "f", token(1)); err != nil {
		t.Fatal(err)
	}
	// Two holders rotate at once, over and over, beside others with their own
	// federations in the same Secret.
	const others, rounds = 3, 10
	wins := make([]int, len(clients))
	var all sync.WaitGroup
	for h := range clients {
		all.Go(func() {
			for serial := int64(2); serial < 2+rounds; {
				mine := token(serial)
				mine.Refresh = fmt.Sprintf("holder-%d-%d", h, serial)
				switch err := clients[h].PutToken(t.Context(), owner, "f", mine); {
				case err == nil:
					wins[h]++
					serial++
				case errors.Is(err, kube.ErrTokenChanged):
					now, err := clients[h].Token(t.Context(), owner, "f")
					if err != nil {
						t.Error(err)
						return
					}
					serial = now.Serial + 1
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	for o := range others {
		all.Go(func() {
			for serial := range int64(rounds) {
				if err := client.PutToken(t.Context(), owner, fmt.Sprintf("other-%d", o), token(serial+1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if wins[0]+wins[1] != rounds {
		t.Errorf("%d rotations were acknowledged for %d serials", wins[0]+wins[1], rounds)
	}
	for o := range others {
		if got, err := client.Token(t.Context(), owner, fmt.Sprintf("other-%d", o)); err != nil || got.Serial != rounds {
			t.Errorf("another federation's: %v, %v; want serial %d", got, err, rounds)
		}
	}
}

func TestTokenStoreRefuses(t *testing.T) {
	t.Parallel()
	client := open(t)
	if err := client.PutToken(t.Context(), "nobody-came-yet", "f", token(1)); !errors.Is(err, kube.ErrNoNamespace) {
		t.Errorf("without a namespace: %v", err)
	}
	long := token(1)
	long.Refresh = strings.Repeat("x", 16<<10+1)
	for what, put := range map[string]func() error{
		"an empty token":   func() error { return client.PutToken(t.Context(), "o", "f", kube.Token{Serial: 1}) },
		"a long token":     func() error { return client.PutToken(t.Context(), "o", "f", long) },
		"a strange name":   func() error { return client.PutToken(t.Context(), "o", "../f", token(1)) },
		"an absent serial": func() error { return client.PutToken(t.Context(), "o", "f", kube.Token{Refresh: "r"}) },
	} {
		if err := put(); err == nil || errors.Is(err, kube.ErrNoNamespace) {
			t.Errorf("%s: %v; want a refusal before anything is asked", what, err)
		}
	}
}

// TestAForeignSecretIsLeftAlone: of our name, with somebody's label or type.
func TestAForeignSecretIsLeftAlone(t *testing.T) {
	t.Parallel()
	client := open(t)
	for user, s := range map[string]*corev1.Secret{
		"unlabel@egi.eu": {},
		"another@egi.eu": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "helm"}}},
		"typed@egi.eu":   {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "oscarfed-syncer"}}, Type: "example.org/mine"},
	} {
		owner := owner(t, user)
		s.Name, s.Data = kube.TokenSecret, map[string][]byte{"f": []byte("theirs")}
		if _, err := shared.Cluster(t).Client().CoreV1().Secrets(kube.Namespace(kube.ServicesNamespace, owner)).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, read := client.Token(t.Context(), owner, "f")
		for what, err := range map[string]error{
			"read": read, "put": client.PutToken(t.Context(), owner, "f", token(1)), "delete": client.DeleteToken(t.Context(), owner, "f", 0),
		} {
			if !errors.Is(err, kube.ErrForeignSecret) {
				t.Errorf("%s, %s: %v", user, what, err)
			}
		}
		if got := kept(t, owner); got == nil || string(got.Data["f"]) != "theirs" {
			t.Errorf("%s: it was touched: %v", user, got)
		}
	}
}

// TestABrokenTokenIsToldWithoutQuotingIt: its text may be most of a token.
func TestABrokenTokenIsToldWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	client, owner := open(t), owner(t, "broken@egi.eu")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: kube.TokenSecret, Labels: map[string]string{"app.kubernetes.io/managed-by": "oscarfed-syncer"}},
		Data: map[string][]byte{"f": []byte(`"precious`), "future": []byte(`{"v":2,"refresh_token":"precious","serial":1}`)}}
	if _, err := shared.Cluster(t).Client().CoreV1().Secrets(kube.Namespace(kube.ServicesNamespace, owner)).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for federation, want := range map[string]error{"f": kube.ErrTokenDamaged, "future": kube.ErrTokenNewer} {
		_, err := client.Token(t.Context(), owner, federation)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "precious") {
			t.Errorf("%s: %v", federation, err)
		}
		if err := client.PutToken(t.Context(), owner, federation, token(2)); !errors.Is(err, want) {
			t.Errorf("%s was replaced by what its issuer gave for another: %v", federation, err)
		}
		if err := client.DeleteToken(t.Context(), owner, federation, 1); !errors.Is(err, want) {
			t.Errorf("%s was taken for another: %v", federation, err)
		}
	}
}

// A token that cannot be read stood in the way of each that was given in its place.
func TestATokenThatCannotBeReadCannotBeReplaced(t *testing.T) {
	t.Parallel()
	client, owner := open(t), owner(t, "unreadable@egi.eu")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: kube.TokenSecret, Labels: map[string]string{"app.kubernetes.io/managed-by": "oscarfed-syncer"}},
		Data: map[string][]byte{"f": []byte("damaged"), "gone": []byte("damaged"), "future": []byte(`{"v":2,"refresh_token":["other"],"serial":1}`), "kept": []byte(`{"v":2}`)}}
	if _, err := shared.Cluster(t).Client().CoreV1().Secrets(kube.Namespace(kube.ServicesNamespace, owner)).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, federation := range []string{"f", "future"} {
		want := token(1)
		if err := client.PutToken(t.Context(), owner, federation, want); err != nil {
			t.Errorf("%s cannot be replaced: %v", federation, err)
		}
		if got, err := client.Token(t.Context(), owner, federation); err != nil || got.Refresh != want.Refresh {
			t.Errorf("%s: %v, %v", federation, got, err)
		}
		if err := client.DeleteToken(t.Context(), owner, federation, 0); !errors.Is(err, kube.ErrTokenChanged) {
			t.Errorf("%s was deleted as if it were still damaged: %v", federation, err)
		}
	}
	if err := client.DeleteToken(t.Context(), owner, "gone", 0); err != nil {
		t.Errorf("it cannot be forgotten: %v", err)
	}
	if _, err := client.Token(t.Context(), owner, "gone"); !errors.Is(err, kube.ErrNoToken) {
		t.Errorf("after its deletion: %v", err)
	}
	if err := client.DeleteToken(t.Context(), owner, "kept", 0); !errors.Is(err, kube.ErrTokenNewer) {
		t.Errorf("a newer version's: %v", err)
	}
}

// TestTokensStayBelowWhatASecretHolds: the next one is refused with the limit, and
// what is kept stays.
func TestTokensStayBelowWhatASecretHolds(t *testing.T) {
	t.Parallel()
	client, owner := open(t), owner(t, "many@egi.eu")
	full := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: kube.TokenSecret, Labels: map[string]string{"app.kubernetes.io/managed-by": "oscarfed-syncer"}},
		Data: map[string][]byte{"others": make([]byte, 900<<10-20<<10)}}
	if _, err := shared.Cluster(t).Client().CoreV1().Secrets(kube.Namespace(kube.ServicesNamespace, owner)).Create(t.Context(), full, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	big := token(1)
	big.Refresh = strings.Repeat("x", 16<<10)
	if err := client.PutToken(t.Context(), owner, "fits", big); err != nil {
		t.Error(err)
	}
	if err := client.PutToken(t.Context(), owner, "more", big); err == nil || !strings.Contains(err.Error(), "921600") {
		t.Errorf("refused without the limit: %v", err)
	}
	if got, err := client.Token(t.Context(), owner, "fits"); err != nil || got.Refresh != big.Refresh {
		t.Errorf("what was kept: %v, %v", got, err)
	}
	if s := kept(t, owner); len(s.Data) != 2 {
		t.Errorf("the Secret has %d keys", len(s.Data))
	}
}

// A full Secret takes no token of another federation. Those that it has can be used: a token is marked before it is
// exchanged, and the one that comes then may be longer.
func TestTokensOfAFullSecretCanBeUsed(t *testing.T) {
	t.Parallel()
	client, owner := open(t), owner(t, "full@egi.eu")
	namespace := kube.Namespace(kube.ServicesNamespace, owner)
	if err := client.PutToken(t.Context(), owner, "one", token(1)); err != nil {
		t.Fatal(err)
	}
	secrets := shared.Cluster(t).Client().CoreV1().Secrets(namespace)
	full := kept(t, owner)
	full.Data["others"] = make([]byte, 900<<10-len("one")-len(full.Data["one"])-len("others"))
	if _, err := secrets.Update(t.Context(), full, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.PutToken(t.Context(), owner, "two", token(1)); err == nil {
		t.Error("another one is taken")
	}
	next := token(2)
	next.BegunBy, next.BegunAt = "pod", time.Now()
	if err := client.PutToken(t.Context(), owner, "one", next); err != nil {
		t.Errorf("it cannot be marked: %v", err)
	}
	next = token(3)
	next.Refresh = strings.Repeat("x", 16<<10)
	if err := client.PutToken(t.Context(), owner, "one", next); err != nil {
		t.Errorf("it cannot be renewed: %v", err)
	}
	if err := client.DeleteToken(t.Context(), owner, "one", 3); err != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
}
