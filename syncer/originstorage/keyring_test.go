package originstorage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestWhichTokenAJobIsPostedWith(t *testing.T) {
	const event = `{"Records":[{"requestParameters":{"principalId":"minio","sourceIPAddress":"::1"}}]}`
	there, user := definition.StorageFor(&elsewhere, "http://x", ""), &record.Desired{Owner: "62bb11b4@egi.eu"}
	for name, c := range map[string]struct {
		at   *definition.Storage
		d    *record.Desired
		body string
		want bool
	}{
		"an event of MinIO":         {there, user, event, false},
		"text":                      {there, user, "hello", true},
		"nothing":                   {there, user, "", true},
		"an event without a user":   {there, user, `{"Records":[{"s3":{}}]}`, true},
		"the cluster's own storage": {nil, user, "hello", false},
		"the administrator's":       {there, &record.Desired{Owner: oscar.OwnerAdmin}, "hello", false},
	} {
		if got := ByOwner(c.at, c.d, []byte(c.body)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUseOfKeys(t *testing.T) {
	at := func(ago time.Duration) time.Time { return planTime.Add(-ago) }
	for name, c := range map[string]struct {
		got, tried time.Time
		doubted    bool
		want       keysUse
	}{
		"none yet":                       {want: keysMissing},
		"none, and it was just tried":    {tried: at(time.Second), want: keysFailed},
		"none, and it was tried":         {tried: at(time.Minute), want: keysMissing},
		"good":                           {got: at(time.Minute), tried: at(time.Minute), want: keysGood},
		"old":                            {got: at(time.Hour), tried: at(time.Hour), want: keysStale},
		"old, and others were not there": {got: at(time.Hour), tried: at(time.Second), want: keysGood},
		"doubted":                        {got: at(time.Minute), tried: at(time.Minute), doubted: true, want: keysStale},
		"doubted at once":                {got: at(time.Second), tried: at(time.Second), doubted: true, want: keysGood},
		"of a month ago":                 {got: at(30 * 24 * time.Hour), tried: at(time.Minute), doubted: true, want: keysStale},
	} {
		if got := useKeys(c.got, c.tried, c.doubted, planTime); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	wrong := &origin.Error{Kind: origin.Wrong, Message: "not the owner's", Err: errors.New("port 4711")}
	for name, c := range map[string]struct {
		keys, alive error
		want        record.Inputs
		mention     string
	}{
		"all is well": {nil, nil, record.Inputs{Readable: true}, ""},
		"no token": {&ownertoken.NoTokenError{Reason: record.ReasonTokenLost, Message: "it was revoked"}, nil,
			record.Inputs{Reason: record.ReasonTokenLost}, "it was revoked"},
		"wrong keys":        {wrong, nil, record.Inputs{Reason: record.ReasonInputsUnreadable}, "not the owner's"},
		"the MinIO is away": {nil, &origin.Error{Message: "no answer"}, record.Inputs{Reason: record.ReasonInputsUnreadable}, "no answer"},
		"anything else":     {errors.New("port 4711"), nil, record.Inputs{Reason: record.ReasonInputsUnreadable}, "log"},
	} {
		got := verdict(c.keys, c.alive)
		if got.Readable != c.want.Readable || got.Reason != c.want.Reason || !strings.Contains(got.Message, c.mention) || strings.Contains(got.Message, "4711") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if p := lookPause(5*time.Minute, true, 0.5); p != 5*time.Minute {
		t.Errorf("readable: %s", p)
	}
	if p := lookPause(5*time.Minute, false, 0); p != 48*time.Second {
		t.Errorf("unreadable: %s", p)
	}
}

// Of many that want the same keys one asks; a failure is told to all, and is not tried
// again at once; what is kept serves while others are got beside.
func TestKeyring(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k, of := newKeyring(time.Now), KeysOf{"alice", elsewhere}
		never := func(context.Context) (origin.Keys, error) { t.Error("asked"); return origin.Keys{}, nil }
		if _, err := k.get(t.Context(), of, never); !errors.Is(err, ownertoken.ErrNoSession) {
			t.Errorf("before it runs: %v", err)
		}
		run, stop := context.WithCancel(t.Context())
		k.open(run)
		release, asked := make(chan error), atomic.Int32{}
		fetch := func(context.Context) (origin.Keys, error) {
			asked.Add(1)
			return origin.Keys{AccessKey: fmt.Sprint("alice", asked.Load())}, <-release
		}
		type result struct {
			keys origin.Keys
			err  error
		}
		results := make(chan result)
		for range 10 {
			go func() {
				keys, err := k.get(t.Context(), of, fetch)
				results <- result{keys, err}
			}()
		}
		failed := errors.New("no")
		release <- failed
		waited := 0
		for range 10 {
			// Who came when it was over is told the same.
			if r := <-results; r.err == nil || r.keys != (origin.Keys{}) {
				t.Errorf("answer %+v", r)
			} else if errors.Is(r.err, failed) {
				waited++
			}
		}
		if asked.Load() != 1 || waited != 10 {
			t.Errorf("asked %d times, %d were told", asked.Load(), waited)
		}
		rest := func() { <-time.After(keysPause) }
		rest()
		go func() { release <- nil }()
		if keys, err := k.get(t.Context(), of, fetch); err != nil || keys.AccessKey != "alice2" {
			t.Errorf("then: %+v %v", keys, err)
		}
		k.doubt(of, time.Hour)
		if keys, err := k.get(t.Context(), of, never); err != nil || keys.AccessKey != "alice2" {
			t.Errorf("new ones are not in doubt: %+v %v", keys, err)
		}
		k.doubt(of, 0)
		rest()
		if keys, err := k.get(t.Context(), of, fetch); err != nil || keys.AccessKey != "alice2" {
			t.Errorf("those in doubt serve on: %+v %v", keys, err)
		}
		if keys, err := k.get(t.Context(), of, never); err != nil || keys.AccessKey != "alice2" {
			t.Errorf("also for those who come meanwhile: %+v %v", keys, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		other := KeysOf{"bob", elsewhere}
		if _, err := k.get(gone, other, func(context.Context) (origin.Keys, error) { return origin.Keys{}, <-release }); !errors.Is(err, context.Canceled) {
			t.Errorf("who does not wait: %v", err)
		}
		release <- failed
		release <- failed
		for { // until both are over
			k.mu.Lock()
			over := k.of[of].flight == nil && k.of[other].flight == nil
			k.mu.Unlock()
			if over {
				break
			}
			<-time.After(time.Millisecond)
		}
		rest()
		go func() { release <- nil }()
		for {
			keys, err := k.get(t.Context(), of, fetch)
			if err != nil {
				t.Fatal(err)
			}
			if keys.AccessKey == "alice4" {
				break
			}
			<-time.After(time.Millisecond)
		}
		k.keep(map[KeysOf]bool{of: true})
		if len(k.of) != 1 {
			t.Errorf("it keeps %v", k.of)
		}
		stop()
		k.close()
	})
}

// Services of one owner may be defined at different times: each is given keys as its own definition
// says, and the failure of another one's address is not its own.
func TestKeysAreThoseOfTheServicesOwnDefinition(t *testing.T) {
	for name, change := range map[string]func(*record.OriginStorage){
		"the region":                    func(o *record.OriginStorage) { o.MinioRegion = "eu-2" },
		"MinIO's certificate":           func(o *record.OriginStorage) { o.MinioVerify = false },
		"the address of OSCAR":          func(o *record.OriginStorage) { o.Endpoint = "https://new.example.org" },
		"the certificate of that OSCAR": func(o *record.OriginStorage) { o.SSLVerify = false },
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				k, d := newKeyring(time.Now), &record.Desired{Owner: "alice"}
				run, stop := context.WithCancel(t.Context())
				defer k.close()
				defer stop()
				k.open(run)
				changed := elsewhere
				change(&changed)
				get := func(o record.OriginStorage, fails error) (origin.Keys, error) {
					at := definition.StorageFor(&o, "http://x", "")
					return k.get(t.Context(), KeysFor(d, at), func(context.Context) (origin.Keys, error) {
						return origin.Keys{Region: at.MinioRegion, Verify: at.MinioVerify}, fails
					})
				}
				failed := errors.New("no")
				if _, err := get(changed, failed); !errors.Is(err, failed) {
					t.Errorf("the changed one: %v", err)
				}
				if keys, err := get(elsewhere, nil); err != nil || keys.Region != elsewhere.MinioRegion || keys.Verify != elsewhere.MinioVerify {
					t.Errorf("the failure was given to another one, or its keys: %+v %v", keys, err)
				}
				<-time.After(keysPause)
				if keys, err := get(changed, nil); err != nil || keys.Region != changed.MinioRegion || keys.Verify != changed.MinioVerify {
					t.Errorf("the keys of another one: %+v %v", keys, err)
				}
			})
		})
	}
}

// A token that is in use for one service opens nothing for another one, and nothing when
// its POST is over.
func TestTokensInUse(t *testing.T) {
	l := newTokensInUse()
	whose := func(token string) (service, uid string) { return l.whose(sha256.Sum256([]byte(token))) }
	here, there := KeysOf{"alice", elsewhere}, KeysOf{"alice", record.OriginStorage{ClusterID: "y"}}
	first, ok := l.begin("token", "one", "u1", here)
	if service, uid := whose("token"); !ok || service != "one" || uid != "u1" {
		t.Errorf("it is %s's", service)
	}
	if _, ok := l.begin("token", "two", "u2", there); ok {
		t.Error("who shows it could be either")
	}
	second, ok := l.begin("token", "three", "u3", here)
	first()
	first()
	if service, _ := whose("token"); !ok || service == "" {
		t.Error("it is still in use")
	}
	second()
	if service, _ := whose("token"); service != "" || len(l.of) != 0 {
		t.Errorf("it is %s's still", service)
	}
	if _, ok := l.begin("token", "two", "u2", there); !ok {
		t.Error("it is free again")
	}
	for _, other := range []string{"", "toke", "tokens"} {
		if service, _ := whose(other); service != "" {
			t.Errorf("%q is %s's", other, service)
		}
	}
}
