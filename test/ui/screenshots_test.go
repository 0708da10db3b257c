package ui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/browser"
	"github.com/oscarfed/oscarfed/test/world"
)

// mostBytes is the size of a picture that a page of documentation may have.
const mostBytes = 150 << 10

// TestScreenshots takes the pictures of the documentation: into the folder SCREENSHOTS, or one
// that is removed.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	clusters := []string{"oscar-valencia", "oscar-bologna", "oscar-krakow", "oscar-lisbon", "oscar-athens"}
	services := []string{"grayify", "plant-classifier", "fish-detector", "text-to-speech"}
	w := world.New(t, world.Options{Clusters: clusters, Names: services, Sim: world.QuickJobs})
	topologies := []string{"star", "tree", "mesh", "star"}
	for i, service := range services {
		var members []string
		for _, c := range clusters[1 : 5-i%2] {
			members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":%q,"priority":0}`, c, service))
		}
		definition := fmt.Sprintf(`{"name":%q,"cluster_id":"oscar-valencia","image":"ghcr.io/grycap/%s","script":"true","memory":"256Mi","cpu":"0.1",
			"federation":{"group_id":%q,"topology":%q,"delegation":"load-based","members":[%s]}}`, service, service, service, topologies[i], strings.Join(members, ","))
		if status, _, body := w.Do("POST", "/system/services", definition); status != 201 {
			t.Fatalf("%d %s", status, body)
		}
	}
	var job string
	for i := range 12 {
		job = w.Submit(services[i%len(services)], fmt.Sprintf(`{"event":%d}`, i))
		w.AwaitJob(job, record.JobSucceeded)
	}
	w.Cluster("oscar-lisbon").Stop()

	s := open(t, w)
	s.admin()
	s.Until("[...document.querySelectorAll('.row-title')].some((e) => e.textContent === 'oscar-lisbon')")
	wide, phone := browser.Look{Width: 1360, Height: 860}, browser.Look{Width: 390, Height: 844}
	dark := wide
	dark.Dark = true
	shoot := func(name string, look browser.Look) {
		t.Helper()
		s.Look(look)
		s.Eval("document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0)))))", nil)
		picture := s.Screenshot()
		if len(picture) > mostBytes {
			t.Errorf("%s has %d bytes", name, len(picture))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Until("document.querySelectorAll('.number').length >= 6 && ![...document.querySelectorAll('.number-value')].some((e) => e.textContent.includes('–'))")
	shoot("overview", wide)
	shoot("overview-dark", dark)
	shoot("overview-phone", phone)
	s.goTo("/federations", "Federations")
	s.Click("plant-classifier")
	s.Until("document.querySelector('.graph canvas')")
	shoot("federation", wide)
	s.goTo("/jobs/"+job, "Job of text-to-speech")
	s.Until("document.querySelector('.verdicts .chosen')")
	shoot("job", wide)
	s.goTo("/clusters", "Clusters")
	s.Until("document.querySelectorAll('.capacity').length === 4")
	shoot("clusters", wide)
}
