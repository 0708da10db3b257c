package suggest

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"federation", "federation_id", "image", "memory", "cpu", "services"}
	for given, want := range map[string]string{
		"federaton": "federation", "imgae": "image", "Memory": "memory", "serv": "services", "cpus": "cpu", "xyz": "", "c": "", "": "",
	} {
		if got, ok := nearest(given, known); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v, want %q", given, got, ok, want)
		}
	}
}
