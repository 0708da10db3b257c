package oscarsim_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

func set(t *testing.T, sim *oscarsim.Sim, f oscarsim.Fault) {
	t.Helper()
	if err := sim.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

func TestHang(t *testing.T) {
	bubble(t, oscarsim.Config{}, func(t *testing.T, sim *oscarsim.Sim) {
		set(t, sim, oscarsim.Fault{Op: "create", Fault: oscarsim.FaultHang, Count: 2})
		ctx, leave := context.WithCancel(t.Context())
		left := start(ctx, sim, "POST", "/system/services", plain("one"))
		stays := start(t.Context(), sim, "POST", "/system/services", plain("two"))
		synctest.Wait()
		<-time.After(24 * time.Hour) // of the bubble's clock
		if _, done := stays.answered(); done {
			t.Fatal("it answered")
		}
		leave()
		if got := <-left.done; got.err == nil {
			t.Fatalf("it answered %d to a client that left", got.status)
		}
		want(t, call(t.Context(), sim, "POST", "/system/services", plain("three")), 201, "") // the count is used up
		sim.ClearFaults()
		if got := <-stays.done; got.status != 500 {
			t.Fatalf("it answered %d when cleared", got.status)
		}
		if names := sim.Services(); strings.Join(names, " ") != "three" {
			t.Fatalf("services %v", names)
		}
	})
}

func TestHangEndsWithTheProcess(t *testing.T) {
	bubble(t, oscarsim.Config{}, func(t *testing.T, sim *oscarsim.Sim) {
		set(t, sim, oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultHang})
		get := start(t.Context(), sim, "GET", "/health", "")
		synctest.Wait()
		sim.Kill()
		if got := <-get.done; got.err == nil {
			t.Fatalf("it answered %d", got.status)
		}
	})
}

func TestReplacingAFaultFreesWhatHangs(t *testing.T) {
	bubble(t, oscarsim.Config{}, func(t *testing.T, sim *oscarsim.Sim) {
		set(t, sim, oscarsim.Fault{Op: "list", Fault: oscarsim.FaultHang, Count: 1})
		hung := start(t.Context(), sim, "GET", "/system/services", "")
		synctest.Wait()
		set(t, sim, oscarsim.Fault{Op: "list", Fault: "none"})
		if got := <-hung.done; got.status != 500 {
			t.Fatalf("it answered %d", got.status)
		}
		want(t, call(t.Context(), sim, "GET", "/system/services", ""), 200, "[]")
	})
}

func TestLateWork(t *testing.T) {
	for _, c := range []struct {
		name           string
		latency, delay time.Duration
		want           time.Duration
	}{
		{"after its delay", 0, 5 * time.Second, 5 * time.Second},
		{"after the latency", 3 * time.Second, 0, 3 * time.Second},
		{"after a second", 0, 0, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, oscarsim.Config{Latency: c.latency}, func(t *testing.T, sim *oscarsim.Sim) {
				set(t, sim, oscarsim.Fault{Op: "create", Fault: oscarsim.FaultLate, Count: 1, Delay: c.delay})
				before := time.Now()
				if got := call(t.Context(), sim, "POST", "/system/services", plain("one")); got.err == nil {
					t.Fatalf("it answered %d", got.status)
				}
				if len(sim.Services()) != 0 {
					t.Fatal("the work is done at once")
				}
				sim.Settle()
				if took := time.Since(before); took != c.want {
					t.Errorf("the work was done after %s, want %s", took, c.want)
				}
				if _, ok := sim.Bucket("one"); !ok || len(sim.Services()) != 1 {
					t.Fatal("the work is not done")
				}
			})
		})
	}
}

func TestLateWorkDiesWithTheProcess(t *testing.T) {
	bubble(t, oscarsim.Config{}, func(t *testing.T, sim *oscarsim.Sim) {
		set(t, sim, oscarsim.Fault{Op: "create", Fault: oscarsim.FaultLate})
		call(t.Context(), sim, "POST", "/system/services", plain("one"))
		sim.Kill()
		<-time.After(time.Hour) // of the bubble's clock
		if len(sim.Services()) != 0 {
			t.Fatal("the work was done after the kill")
		}
	})
}

// The rest runs over a network, where a dropped connection is what the client sees.

func TestFaults(t *testing.T) {
	created := func(sim *oscarsim.Sim) (service, bucket, webhook bool) {
		v, service := sim.Service("one")
		_, bucket = sim.Bucket("one")
		return service, bucket, v.Registered
	}
	for _, c := range []struct {
		fault                    string
		status                   int // 0: no answer
		body                     string
		service, bucket, webhook bool
	}{
		{oscarsim.FaultRefuse, 0, "", false, false, false},
		{oscarsim.Fault500, 500, "Error creating the service: etcdserver: request timed out", false, false, false},
		{oscarsim.Fault500After, 500, "error restarting the MinIO server: EOF", true, true, true},
		{oscarsim.FaultCrash, 0, "", true, false, false},
		{oscarsim.FaultDeny, 401, "", false, false, false},
	} {
		t.Run(c.fault, func(t *testing.T) {
			sim, url := serve(t, oscarsim.Config{})
			set(t, sim, oscarsim.Fault{Op: "create", Fault: c.fault, Count: 1})
			got := ask(t, url, "POST", "/system/services", plain("one"))
			if c.status == 0 && got.err == nil || c.status != 0 && (got.err != nil || got.status != c.status || got.body != c.body) {
				t.Fatalf("got %+v", got)
			}
			if service, bucket, webhook := created(sim); service != c.service || bucket != c.bucket || webhook != c.webhook {
				t.Fatalf("service %t, bucket %t, webhook %t", service, bucket, webhook)
			}
			if !c.service {
				want(t, ask(t, url, "POST", "/system/services", plain("one")), 201, "") // the count is used up
			}
		})
	}
}

// TestWebhookAfterACrashOfACreate: the POST of a mesh worker makes no bucket. What its PUTs do then about the webhook
// and the notification.
func TestWebhookAfterACrashOfACreate(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	worker := strings.Replace(plain("one"), "{", `{"owner":"cluster_admin","annotations":{"oscar.grycap/federation-worker":"true"},"federation":{"topology":"mesh","members":[]},"token":"t",`, 1)
	set(t, sim, oscarsim.Fault{Op: "create", Fault: oscarsim.FaultCrash, Count: 1})
	if got := ask(t, url, "POST", "/system/services", worker); got.err == nil {
		t.Fatalf("the create answered %d", got.status)
	}
	want(t, ask(t, url, "PUT", "/system/services", worker), 204, "")
	v, _ := sim.Service("one")
	b, made := sim.Bucket("one")
	if v.Registered || !made || len(b.Notifies)+len(b.Dangling) != 0 {
		t.Fatalf("a PUT of the same definition: webhook registered %t, bucket %+v", v.Registered, b)
	}
	// A bucket that the definition did not name before has it registered, also one that cannot be made.
	other := strings.ReplaceAll(worker, "one/", "_one/")
	if got := ask(t, url, "PUT", "/system/services", other); got.status != 500 {
		t.Fatalf("got %+v", got)
	}
	if v, _ = sim.Service("one"); !v.Registered || v.Webhook != "t" || strings.Join(v.Inputs, " ") != "_one/in" {
		t.Fatalf("service %+v", v)
	}
}

func TestCrashOfADeleteAndAnUpdate(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	if err := sim.PutService(plain("one")); err != nil {
		t.Fatal(err)
	}
	set(t, sim, oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultCrash, Count: 2})
	if got := ask(t, url, "PUT", "/system/services", strings.ReplaceAll(plain("one"), "one/", "two/")); got.err == nil {
		t.Fatalf("the update answered %d", got.status)
	}
	v, _ := sim.Service("one")
	if strings.Join(v.Inputs, " ") != "one/in" || strings.Join(sim.Buckets(), " ") != "one two" {
		t.Fatalf("inputs %v, buckets %v", v.Inputs, sim.Buckets())
	}
	if got := ask(t, url, "DELETE", "/system/services/one", ""); got.err == nil {
		t.Fatalf("the delete answered %d", got.status)
	}
	if st := sim.State(); len(st.Services) != 0 || len(st.Buckets) != 2 || st.Webhooks["one"] == "" {
		t.Fatalf("state %+v", st)
	}
}

func TestFaultOfTheOperationGoesBeforeAny(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	set(t, sim, oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.Fault500})
	set(t, sim, oscarsim.Fault{Op: "list", Fault: oscarsim.FaultDeny, Count: 1})
	want(t, ask(t, url, "GET", "/system/services", ""), 401, "")
	want(t, ask(t, url, "GET", "/system/services", ""), 500, "etcdserver: request timed out")
	want(t, ask(t, url, "GET", "/health", ""), 500, "etcdserver: request timed out")
	if st := ask(t, url, "GET", "/_sim/state", ""); st.status != 200 {
		t.Fatalf("/_sim/ has the fault too: %+v", st)
	}
	want(t, ask(t, url, "DELETE", "/_sim/faults", ""), 204, "")
	want(t, ask(t, url, "GET", "/health", ""), 200, "Ok")
}

func TestRefusedCredentialsUseNoFaultUp(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	set(t, sim, oscarsim.Fault{Op: "list", Fault: oscarsim.Fault500, Count: 1})
	resp, err := http.Get(url + "/system/services")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Fatalf("got %d", resp.StatusCode)
	}
	want(t, ask(t, url, "GET", "/system/services", ""), 500, "etcdserver: request timed out")
}

func TestBadFaults(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	for _, f := range []oscarsim.Fault{{Op: "nothing", Fault: "500"}, {Op: "list", Fault: "nothing"}, {Op: "list", Fault: "500", Count: -1}, {Op: "list", Fault: "late", Delay: -1}, {Fault: "500"}} {
		if sim.SetFault(f) == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
	for _, body := range []string{"", "[]", `{"op":"list","fault":"500","delay":"soon"}`, `{"op":"list","fault":"x"}`} {
		if got := ask(t, url, "PUT", "/_sim/faults", body); got.status != 400 || got.body == "" {
			t.Errorf("%q answered %+v", body, got)
		}
	}
	want(t, ask(t, url, "GET", "/system/services", ""), 200, "[]")
}

// TestMinIOIsAway: OSCAR itself answers, and what needs its MinIO does not.
func TestMinIOIsAway(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	set(t, sim, oscarsim.Fault{Op: oscarsim.OpMinIO, Fault: oscarsim.FaultRefuse})
	want(t, ask(t, url, "GET", "/system/services", ""), 200, "[]")
	for _, asked := range [][]string{{"GET", "/system/buckets", ""}, {"POST", "/system/services", plain("one")}} {
		if got := ask(t, url, asked[0], asked[1], asked[2]); got.status != 500 || !strings.Contains(got.body, "connect: connection refused") {
			t.Errorf("%v answered %+v", asked[:2], got)
		}
	}
	if names := sim.Services(); len(names) != 0 {
		t.Errorf("services %v", names)
	}
	bubble(t, oscarsim.Config{}, func(t *testing.T, sim *oscarsim.Sim) {
		set(t, sim, oscarsim.Fault{Op: oscarsim.OpMinIO, Fault: oscarsim.FaultHang})
		list := start(t.Context(), sim, "GET", "/system/buckets", "")
		made := start(t.Context(), sim, "POST", "/system/services", plain("one"))
		synctest.Wait()
		if names := sim.Services(); strings.Join(names, " ") != "one" {
			t.Fatalf("services %v: the one that is being made shows already", names)
		}
		sim.ClearFaults()
		if got := <-list.done; got.status != 200 {
			t.Errorf("the list answered %d", got.status)
		}
		if got := <-made.done; got.status != 201 {
			t.Errorf("the creation answered %d", got.status)
		}
	})
	if sim.SetFault(oscarsim.Fault{Op: oscarsim.OpMinIO, Fault: oscarsim.FaultDeny}) == nil {
		t.Error("MinIO takes a fault of OSCAR")
	}
}
