package ui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/browser"
	"github.com/oscarfed/oscarfed/test/world"
)

// look writes pictures of what is shown into the folder LOOK, for somebody who works on a view.
func (s *site) look(name string) {
	s.t.Helper()
	dir := os.Getenv("LOOK")
	if dir == "" {
		return
	}
	for suffix, l := range map[string]browser.Look{
		"": {Width: 1360, Height: 1300}, "-dark": {Width: 1360, Height: 1300, Dark: true}, "-phone": {Width: 390, Height: 1900},
	} {
		s.Look(l)
		s.Eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))", nil)
		if err := os.WriteFile(filepath.Join(dir, name+suffix+".png"), s.Screenshot(), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Look(browser.Look{Width: 1360, Height: 860})
}

// pick checks the box of a cluster, or takes the check away.
func (s *site) pick(cluster string) {
	s.t.Helper()
	box := fmt.Sprintf(`[...document.querySelectorAll('.picks label')].find((e) => e.querySelector('bdi').textContent === %q)?.querySelector('input')`, cluster)
	s.Until(box)
	s.Eval(box+".click()", nil)
}

// focused waits until an element has the focus, which changes nothing in the document.
func (s *site) focused(selector string) {
	s.t.Helper()
	s.Eval(fmt.Sprintf("new Promise((done) => { const ask = () => document.activeElement?.matches(%q) ? done(0) : requestAnimationFrame(ask); ask(); })", selector), nil)
}

const fdlArea = "textarea[aria-label=FDL]"

func (s *site) fdl() string {
	s.t.Helper()
	var text string
	s.Eval(fmt.Sprintf("document.querySelector(%q).value", fdlArea), &text)
	return text
}

// TestAServiceIsCreatedByTheForm becomes ready, is broken at one of its OSCARs, and is repaired.
func TestAServiceIsCreatedByTheForm(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	s := open(t, w)
	s.admin()
	s.goTo("/federations", "Federations")
	s.Click("Create a service")
	s.Until("document.querySelector('.definition')")
	s.accessible("create")
	s.narrow("create")
	s.look("create-0")

	// What is not valid is told at its line.
	s.Fill("#f-image", "ghcr.io/grycap/imagemagick:1")
	s.Fill("#f-cpu", "much")
	s.Click("Show the plan")
	s.Until("document.querySelector('#cpu-error') && document.querySelector('#name-error') && document.querySelectorAll('.editor-mark.bad').length === 2")
	s.focused(".messages[role=alert]")
	s.accessible("create with errors")
	s.look("create-errors")
	var selected string
	s.Eval(`[...document.querySelectorAll('.messages li')].find((e) => e.textContent.includes('cpu')).querySelector('button').click()`, nil)
	s.focused(fdlArea)
	s.Eval("(() => { const a = document.activeElement; return a.value.slice(a.selectionStart, a.selectionEnd) })()", &selected)
	if strings.TrimSpace(selected) != `cpu: "much"` {
		t.Errorf("the line is %q", selected)
	}

	// Both sides say the same; a comment and a key that nobody knows stay.
	s.Fill("#f-cpu", "0.1")
	s.Fill("#f-name", "grayify")
	s.Fill("#f-cluster", "oscar-cluster-a")
	text := strings.Replace(s.fdl(), "memory: 512Mi", "memory: 256Mi # enough\n        memry: 1Gi", 1)
	s.Fill(fdlArea, text)
	s.Until("document.querySelector('#f-memory').value === '256Mi'")
	s.pick("oscar-cluster-b")
	s.pick("oscar-cluster-c")
	text = s.fdl()
	for _, part := range []string{"- oscar-cluster-a:", "memory: 256Mi # enough", "memry: 1Gi", "topology: star", "cluster_id: oscar-cluster-c"} {
		if !strings.Contains(text, part) {
			t.Errorf("the FDL has no %s: %s", part, text)
		}
	}
	s.Fill(fdlArea, text+"\n  - nothing: [")
	s.shows("The FDL cannot be read")
	s.Until("document.querySelector('fieldset.bare').disabled")
	s.accessible("an FDL that cannot be read")
	s.Fill(fdlArea, text)

	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 3")
	s.shows(`did you mean "memory"?`)
	s.accessible("plan")
	s.narrow("plan")
	s.look("create-plan")
	s.Click("Create it")
	s.shows("grayify is ready")
	s.shows("3 of 3 replicas ready")
	s.accessible("created")
	s.look("create-ready")
	s.Click("Open the federation")
	s.Until("document.querySelector('.summary .state.ok')")

	// One is broken where it stands, and put back.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.Cluster("oscar-cluster-b").URL+"/system/services/grayify", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(world.User, world.Password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%d %v", answer.StatusCode, err)
	}
	s.goTo("/", "Overview")
	s.Until("[...document.querySelectorAll('.row-text')].some((e) => e.textContent === 'the service is as desired again')")
	w.Eventually("it stands again", func() bool {
		_, ok := w.Cluster("oscar-cluster-b").Sim.Service("grayify")
		return ok
	})
	s.shows("Nothing is wrong")
}

// TestClustersThatAreChosenFirstFollowTheName: members have no name while the service has none.
func TestClustersThatAreChosenFirstFollowTheName(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	s.Fill("#f-image", "i")
	s.Fill("#f-cluster", "oscar-cluster-a")
	s.pick("oscar-cluster-b")
	s.Fill(fdlArea, strings.Replace(s.fdl(), "members:\n", "members:\n            - type: endpoint\n              service_name: \"\"\n              url: https://faas.example/run\n", 1))
	s.shows("One member is an endpoint")
	for _, name := range []string{"g", "", "grayify"} {
		s.Fill("#f-name", name)
	}
	if text := s.fdl(); strings.Count(text, `service_name: "grayify"`) != 1 || strings.Count(text, `service_name: ""`) != 1 {
		t.Errorf("the names of members are not as they were chosen: %s", text)
	}
}

// TestAChangeOfSomebodyElseIsNotOverwritten is refused with what it would undo.
func TestAChangeOfSomebodyElseIsNotOverwritten(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	if status, _, body := w.Do("POST", "/system/services", definition("ghcr.io/grycap/imagemagick:1")); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	s := open(t, w)
	s.admin()
	s.goTo("/federations", "Federations")
	s.Click("grayify")
	s.Click("Change …")
	s.Until("document.querySelector('#f-image')?.value === 'ghcr.io/grycap/imagemagick:1'")
	s.accessible("change")
	s.Fill("#f-memory", "512Mi")
	s.Click("Show the plan")
	s.Until("document.querySelector('.planned .diff .new')?.textContent.includes('memory: 512Mi')")
	s.look("change-plan")
	s.accessible("the plan of a change")

	if status, _, body := w.Do("PUT", "/system/services", definition("ghcr.io/grycap/imagemagick:2")); status >= 300 {
		t.Fatalf("%d %s", status, body)
	}
	s.shows("Generation 2 was made meanwhile")
	s.Until("document.querySelector('.diff .new')?.textContent.includes('imagemagick:2')")
	s.Click("Change it")
	s.shows("Nothing of yours was written")
	s.accessible("a conflict")
	s.look("change-conflict")
	s.Click("Drop mine, begin with theirs")
	s.Until("document.querySelector('#f-image').value === 'ghcr.io/grycap/imagemagick:2'")
	s.Fill("#f-memory", "512Mi")
	s.pick("oscar-cluster-c")
	s.Click("Show the plan")
	s.Until("[...document.querySelectorAll('.plan .state')].some((e) => e.textContent === 'Remove')")
	s.Click("Change it")
	s.shows("grayify is ready")
	s.Click("Open the federation")
	s.shows("Generation 3")
	var images int
	s.Eval("document.querySelectorAll('main img').length + (document.title === 'hacked' ? 1 : 0)", &images)
	if images != 0 {
		t.Error("what a definition says became markup")
	}
}

// losesAnAnswer is a world whose outage begins with the next creation after something was sent to
// the channel: the creation is carried out, and nobody learns of it.
func losesAnAnswer(t *testing.T, lost *outage) (*world.World, chan<- struct{}) {
	answers := make(chan struct{}, 1)
	return world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs, Middleware: func(next http.Handler) http.Handler {
		inner := lost.middleware(next)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/system/services" && r.UserAgent() != "" {
				select {
				case <-answers:
					next.ServeHTTP(&unheard{header: http.Header{}}, r)
					lost.begin()
					panic(http.ErrAbortHandler)
				default:
				}
			}
			inner.ServeHTTP(rw, r)
		})
	}}), answers
}

// TestNumbersAndTruthValuesOfKServeAreSentAsSuch: OSCAR refuses a service in which they are texts.
func TestNumbersAndTruthValuesOfKServeAreSentAsSuch(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	s.Fill(fdlArea, "functions:\n  oscar:\n  - oscar-cluster-a:\n      name: grayify\n      image: i\n      script: |\n        true\n"+
		"      kserve:\n        type: inference\n        storage_uri: s3://models/m\n        inference: {model_format: onnx, runtime: 2}\n"+
		"        min_scale: 1\n        max_scale: 2\n        enable_gpu: true\n        set_auth: false\n        cpu: 0.5\n        args: [8080]\n        env: {PORT: 8080}\n")
	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 1")
	s.Click("Create it")
	s.shows("grayify is ready")
	made := world.Must(w.Client.Service(t.Context(), "grayify", ""))(t)
	got, err := json.Marshal(made.Kserve)
	const want = `{"type":"inference","storage_uri":"s3://models/m","inference":{"model_format":"onnx","runtime":"2"},"args":["8080"],"cpu":"0.5",` +
		`"enable_gpu":true,"env":{"PORT":"8080"},"max_scale":2,"min_scale":1,"set_auth":false}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestAnFDLIsReadAsTheCommandReadsIt: what << brings is in the service, and by a change in the form of one value no other one
// is changed, however its number is written.
func TestAnFDLIsReadAsTheCommandReadsIt(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	const text = "small: &small {cpu: 0.2, memory: 128Mi, labels: {size: small, zone: 010}}\n" +
		"common: &common\n  <<: *small\n  cpu: 0.1\n  environment:\n    variables: {CODE: 0123, ACCOUNT: 12345678901234567890, RATE: 1e3}\n" +
		"functions:\n  oscar:\n  - oscar-cluster-a:\n      <<: [*common, {image: i, cpu: 9}]\n      name: grayify\n" +
		"      environment: {<<: {secrets: {KEY: k}}, variables: {OWN: 1.50, CODE: 0123}}\n      script: |\n        true\n"
	s.Fill(fdlArea, text)
	s.Until("document.querySelector('#f-memory').value === '128Mi' && document.querySelector('#f-image').value === 'i'")
	s.Fill("#f-memory", "256Mi")
	s.Until("document.querySelector('#f-memory').value === '256Mi'")
	changed := s.fdl()
	read, violations := oscar.ParseFDL([]byte(strings.Replace(text, "name: grayify", "name: grayify\n      memory: 256Mi", 1)))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	want := read.Functions[0].Service
	again, violations := oscar.ParseFDL([]byte(changed))
	if len(violations) > 0 || !oscar.Equal(again.Functions[0].Service, want) {
		t.Errorf("%v: the form has made of it %s", violations, changed)
	}
	// What << cannot bring is refused, as by the command.
	for _, wrong := range []string{"<<: 5", "memory: *other", "self: &self {<<: *self}"} {
		broken := strings.Replace(text, "name: grayify", "name: grayify\n      "+wrong, 1)
		s.Fill(fdlArea, strings.Replace(broken, "      <<: [", "      # <<: [", 1))
		s.shows("The FDL cannot be read")
		s.Fill(fdlArea, changed)
		s.Until("!document.querySelector('fieldset.bare').disabled")
	}

	// A change below what an alias brings keeps the rest of it, here alone.
	s.Fill(fdlArea, "all: &all {group_id: ours, delegation: random}\n"+strings.Replace(text, "name: grayify", "name: grayify\n      federation: *all", 1))
	s.pick("oscar-cluster-b")
	shared := s.fdl()
	read, violations = oscar.ParseFDL([]byte(shared))
	if len(violations) > 0 {
		t.Fatalf("%v: %s", violations, shared)
	}
	if f := read.Functions[0].Service.Federation; f == nil || f.GroupID != "ours" || f.Delegation != "random" || len(f.Members) != 1 || !strings.Contains(shared, "all: &all { group_id: ours, delegation: random }") {
		t.Errorf("the federation %+v of %s", f, shared)
	}
	s.Fill(fdlArea, changed)

	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 1")
	s.Click("Create it")
	s.shows("grayify is ready")
	made := world.Must(w.Client.Service(t.Context(), "grayify", ""))(t)
	if made.CPU != want.CPU || made.Memory != want.Memory || made.Image != want.Image || !cmp.Equal(made.Labels, want.Labels) ||
		!cmp.Equal(made.Environment.Variables, want.Environment.Variables) {
		t.Errorf("the page has sent %+v; want %+v", made, want)
	}
}

// TestACreationWhoseAnswerIsLost is sent again with its key, and made once.
func TestACreationWhoseAnswerIsLost(t *testing.T) {
	lost := newOutage()
	w, answers := losesAnAnswer(t, lost)
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	s.Fill(fdlArea, "functions:\n  oscar:\n  - oscar-cluster-a:\n      name: grayify\n      image: ghcr.io/grycap/imagemagick\n      cpu: 0.1\n      script: |\n        true\n")
	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 1")
	answers <- struct{}{}
	s.Click("Create it")
	s.shows("whatever arrived is done once")
	s.accessible("an answer that is lost")
	lost.end()
	s.shows("grayify is ready")
	if f := world.Must(w.Client.Federations(t.Context()))(t); len(f) != 1 || f[0].Generation != 1 {
		t.Errorf("there are %+v", f)
	}
}

// TestARefusalWhoseAnswerIsLostIsTold: the creation ends while the page has no answer. Asked again,
// the control plane tells how it ended: with 503, and that is no lost answer.
func TestARefusalWhoseAnswerIsLostIsTold(t *testing.T) {
	lost := newOutage()
	w, answers := losesAnAnswer(t, lost)
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	s.Fill("#f-name", "grayify")
	s.Fill("#f-image", "i")
	s.Fill("#f-cluster", "oscar-cluster-a")
	s.pick("oscar-cluster-b")
	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 2")
	if err := w.Cluster("oscar-cluster-b").Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultRefuse}); err != nil {
		t.Fatal(err)
	}
	answers <- struct{}{}
	s.Click("Create it")
	w.Eventually("the creation is aborted", func() bool {
		f := world.Must(w.Client.Federations(t.Context()))(t)
		return len(f) == 1 && f[0].Phase == v1.PhaseAborted
	})
	s.shows("whatever arrived is done once")
	lost.end()
	s.Until("[...document.querySelectorAll('.messages[role=alert] li')].some((e) => e.textContent.includes('oscar-cluster-b: '))")
	s.accessible("a refusal whose answer was lost")
}

// unheard is an answer that reaches nobody.
type unheard struct{ header http.Header }

func (u *unheard) Header() http.Header         { return u.header }
func (u *unheard) Write(b []byte) (int, error) { return len(b), nil }
func (u *unheard) WriteHeader(int)             {}

// TestARefusedCreationSaysWhy names the cluster and its reason, and the definition is still there.
func TestARefusedCreationSaysWhy(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	if err := w.Cluster("oscar-cluster-b").Sim.PutService(`{"name":"grayify","image":"i","script":"s","cpu":"0.1","memory":"64Mi"}`); err != nil {
		t.Log(err)
	}
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	s.Fill("#f-name", "grayify")
	s.Fill("#f-image", "i")
	s.Fill("#f-cluster", "oscar-cluster-a")
	s.pick("oscar-cluster-b")
	s.Click("Show the plan")
	s.Click("Create it")
	s.shows("grayify was not created")
	s.accessible("a refused creation")
	s.look("create-refused")
	s.Click("Change the definition")
	s.Until("document.querySelector('#f-name').value === 'grayify'")
}

// TestServicesOfOneFileAreCreatedTogether: what is wrong with one is told before anything is sent,
// what one cluster refuses is made nowhere, and then all are there.
func TestServicesOfOneFileAreCreatedTogether(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"first", "second"}, Sim: world.QuickJobs})
	if err := w.Cluster("oscar-cluster-b").Sim.PutService(`{"name":"second","image":"i","script":"s","cpu":"0.1","memory":"64Mi"}`); err != nil {
		t.Fatal(err)
	}
	s := open(t, w)
	s.admin()
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	const file = "functions:\n  oscar:\n  - oscar-cluster-a:\n      name: first\n      image: i\n      cpu: 0.1\n      script: |\n        true\n" +
		"  - oscar-cluster-b:\n      name: second\n      image: i\n      cpu: %s\n      script: |\n        true\n"
	s.Fill(fdlArea, fmt.Sprintf(file, "much"))
	s.shows("The file has 2 services; the form shows")
	s.Click("Show the plan")
	s.shows("1 service of 2 cannot be sent so")
	s.Until("document.querySelectorAll('.editor-mark.bad').length === 1 && !document.querySelector('#cpu-error')")
	s.accessible("several services, one wrong")
	s.look("create-several-wrong")

	s.Fill(fdlArea, fmt.Sprintf(file, "0.1"))
	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 2")
	s.shows("All 2 services, or none of them")
	s.accessible("the plan of several services")
	s.narrow("the plan of several services")
	s.look("create-several-plan")
	s.Click("Create all")
	s.shows("None of the 2 services stays")
	s.shows("first was not created")
	s.shows("second was not created")
	s.accessible("several services that are refused")
	s.look("create-several-refused")
	if _, there := w.Cluster("oscar-cluster-a").Sim.Service("first"); there {
		t.Error("one was made without the other")
	}

	s.Click("Change the definition")
	free := strings.Replace(fmt.Sprintf(file, "0.1"), "oscar-cluster-b", "oscar-cluster-c", 1)
	s.Fill(fdlArea, free)
	s.Click("Show the plan")
	s.Until("document.querySelectorAll('.plan li').length === 2")
	s.Click("Create all")
	s.shows("2 of 2 services ready")
	s.accessible("several services that are ready")
	s.look("create-several-ready")

	// What is there is not created again, and nothing is sent.
	s.goTo("/federations", "Federations")
	s.goTo("/create", "Create a service")
	s.Until("document.querySelector('.definition')")
	s.Fill(fdlArea, free)
	s.Click("Show the plan")
	s.shows("You have a service first already.")
}
