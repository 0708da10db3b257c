package oscar

import (
	"strings"
	"testing"
)

// TestImages: what a kubelet pulls is accepted, and what it says InvalidImageName of is refused.
func TestImages(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 8)
	for image, good := range map[string]bool{
		"busybox":                          true,
		"i":                                true,
		"docker.io/library/busybox":        true,
		"ghcr.io/grycap/imagemagick":       true,
		"ghcr.io/grycap/imagemagick:7.1-q": true,
		"user/repo:V1_x.y-z":               true,
		"localhost/x":                      true,
		"localhost:5000/a/b_c/d__e/f---g/h.i:TAG":           true,
		"Registry.Example.ORG:5000/a/b":                     true,
		"10.0.0.1:5000/a":                                   true,
		"[2001:db8::1]:5000/a:1":                            true,
		"a@sha256:" + hex[:64]:                              true,
		"a/b:1@sha256:" + hex[:64]:                          true,
		"a@sha384:" + hex[:96]:                              true,
		"a@sha512:" + hex:                                   true,
		"a:" + strings.Repeat("t", 128):                     true,
		hex[:63]:                                            true,
		"registry.local/" + strings.Repeat("a/", 100) + "a": true,

		"My Image:1":                    false,
		"MyImage":                       false,
		"ghcr.io/Grycap/x":              false,
		" busybox":                      false,
		"busybox ":                      false,
		"busybox\n":                     false,
		"a:b:c":                         false,
		"a:":                            false,
		":1":                            false,
		"a//b":                          false,
		"a/":                            false,
		"/a":                            false,
		"-a":                            false,
		"a_-b":                          false,
		"https://ghcr.io/grycap/x":      false,
		"docker://busybox":              false,
		"user:pass@ghcr.io/x":           false,
		"a@sha256:abc":                  false,
		"a@md5:" + hex[:32]:             false,
		"$IMAGE":                        false,
		hex[:64]:                        false,
		"a:" + strings.Repeat("t", 129): false,
		"a/" + strings.Repeat("b", 300): false,
	} {
		if vs := checkImage(&Service{Image: image}); (len(vs) == 0) != good {
			t.Errorf("%q: %v", image, vs)
		}
	}
	if vs := checkImage(&Service{Image: "A" + strings.Repeat("b", 5000)}); len(vs) != 1 || len(vs[0].Message) > 400 {
		t.Errorf("%v", vs)
	}
}
