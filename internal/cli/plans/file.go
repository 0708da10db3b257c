package plans

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

const (
	fileVersion = 1
	// maxFile in bytes: a dozen of the largest definitions with their plans.
	maxFile = 32 << 20
)

// File is what plan --out writes and apply --plan takes: whole definitions,
// and for each what was planned. What it may do is said by the digests, which only
// the control plane can make; the rest is for people.
type File struct {
	V        int       `json:"v"`
	MadeAt   v1.Time   `json:"made_at"`
	Services []Service `json:"services"`
}

// Service is one service of a file.
type Service struct {
	// Definition with its script and its secrets.
	Definition json.RawMessage `json:"definition"`
	Deployment string          `json:"deployment,omitempty"`
	Plan       *v1.Plan        `json:"plan"`
	service    *oscar.Service
}

// New is a file without services.
func New(madeAt v1.Time) *File { return &File{V: fileVersion, MadeAt: madeAt} }

// Of is the service that was planned.
func (s *Service) Of() *oscar.Service { return s.service }

// Add adds a service and its plan.
func (f *File) Add(s *oscar.Service, deployment string, plan *v1.Plan) error {
	definition, err := json.Marshal(s.Submitted())
	if err != nil {
		return fmt.Errorf("service %q: %w", s.Name, err)
	}
	f.Services = append(f.Services, Service{Definition: definition, Deployment: deployment, Plan: plan, service: s})
	return nil
}

// Write replaces path by a file that only its owner can read, whole or not at all.
func (f *File) Write(path string) (err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("%s is not a regular file; name another one for the plan", path)
	}
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}

// Secrets names the secrets in the file, in one line.
func (f *File) Secrets() string {
	var names []string
	for _, s := range f.Services {
		_, patch := oscar.SplitSecrets(s.service)
		list, err := oscar.SecretDifferences(nil, patch)
		if err != nil {
			continue
		}
		for _, one := range list {
			names = append(names, s.service.Name+": "+one.Path)
		}
		if s.service.Clone().TakeRefreshToken() != "" {
			names = append(names, s.service.Name+": "+oscar.RefreshTokenKey)
		}
	}
	return strings.Join(names, ", ")
}

// Read reads and checks a file. Whatever is wrong with it is invalid input.
func Read(path string) (*File, error) {
	data, err := settings.ReadLimited(path, maxFile)
	if err != nil {
		return nil, fdl.AsInput(err)
	}
	f, err := parse(data)
	if err != nil {
		return nil, exit.Errorf(exit.Invalid, "%s is no plan: %w", path, err)
	}
	return f, nil
}

func parse(data []byte) (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	f := &File{}
	if err := dec.Decode(f); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows after its end")
	}
	switch {
	case f.V != fileVersion:
		return nil, fmt.Errorf("it has version %d, this program knows %d; plan again", f.V, fileVersion)
	case len(f.Services) == 0:
		return nil, errors.New("it has no service")
	}
	for i := range f.Services {
		s := &f.Services[i]
		service, violations := oscar.ParseService(s.Definition)
		switch {
		case len(violations) > 0:
			return nil, fmt.Errorf("services[%d].definition: %s: %s", i, violations[0].Path, violations[0].Message)
		case s.Plan == nil || s.Plan.Digest == "":
			return nil, fmt.Errorf("services[%d] has no plan", i)
		case !slices.Contains([]string{v1.PlanCreate, v1.PlanChange, v1.PlanNone}, s.Plan.Action):
			return nil, fmt.Errorf("services[%d].plan.action %q is unknown", i, s.Plan.Action)
		case s.Plan.Coordinator.ServiceName != service.Name:
			return nil, fmt.Errorf("services[%d]: the plan is of %s, the definition of %s", i, s.Plan.Coordinator.ServiceName, service.Name)
		}
		s.service = service
	}
	return f, nil
}

// Shows says whether a plan as it was written down is the one that its digest
// names. What changes by itself (queues, votes, warnings) does not count.
func Shows(written, now *v1.Plan) bool {
	return reflect.DeepEqual(lasting(written), lasting(now))
}

// lasting is a plan without what changes by itself, in the form that it has after
// it was read.
func lasting(p *v1.Plan) (out v1.Plan) {
	stable := *p
	stable.Warnings, stable.ClustersRevision = nil, 0
	stable.Replicas = slices.Clone(p.Replicas)
	for i := range stable.Replicas {
		stable.Replicas[i].DelayS, stable.Replicas[i].Vote = 0, nil
	}
	data, err := json.Marshal(stable)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return stable
	}
	return out
}
