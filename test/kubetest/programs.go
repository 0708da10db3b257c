package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/oscarfed/oscarfed/test/module"
)

// Names of the programs.
const (
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
)

var requiredKubernetes = regexp.MustCompile(`(?m)^require k8s\.io/kubernetes (v\S+)$`)

// programs is the folder with the programs of the version that tools/kube.mod pins.
func programs() (string, error) {
	root, err := module.Root()
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(root, "tools", "kube.mod"))
	if err != nil {
		return "", err
	}
	version := requiredKubernetes.FindSubmatch(mod)
	if version == nil {
		return "", errors.New("tools/kube.mod requires no k8s.io/kubernetes")
	}
	dir := filepath.Join(root, "build", "tools", "kube-"+string(version[1]))
	for _, name := range []string{apiServer, controllerManager} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("this test needs %s: run `make kube` once (some minutes; `make test` does it by itself): %w", name, err)
		}
	}
	return dir, nil
}
