package syncer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// release gives a service free: it goes on as it is, with its Secret, its buckets
// and its token, and without anything that says it belongs to a federation. The
// token stays because OSCAR changes it on no PUT; who has it can go on sending jobs.
// OSCAR makes a bucket that the definition names and that is missing, as it does on
// every PUT.
func (t *term) release(ctx context.Context, v *sight) (bool, error) {
	body, err := releasedBody(v.service.JSON)
	if err != nil {
		return false, err
	}
	if err := t.fence(v); err != nil {
		return false, err
	}
	t.session.FailPoints.Hit(failBeforeRelease)
	err = t.call(ctx, v, release, func(ctx context.Context, timeout time.Duration) error {
		return t.cfg.OSCAR.Update(ctx, v.name, body, "", timeout)
	})
	t.notes.change(v.name, func(n *note) { n.written = t.session.Now() })
	t.session.FailPoints.Hit(failAfterRelease)
	return err == nil, t.noteFailure(v, release, record.ReasonUpdateFailed, err)
}

// isMark names the annotations that make a service a member: ours, and those that
// OSCAR understands as a worker of another cluster's service.
func isMark(annotation string) bool {
	return strings.HasPrefix(annotation, oscar.AnnotationPrefix) || annotation == oscar.AnnotationWorker ||
		annotation == oscar.AnnotationOriginCluster || annotation == oscar.AnnotationOriginService
}

// marked says whether a service carries a mark of a federation.
func marked(service *manager.Service) bool {
	for annotation := range service.Annotations {
		if isMark(annotation) {
			return true
		}
	}
	var shown struct {
		Federation *struct {
			GroupID string `json:"group_id"`
		} `json:"federation"`
	}
	return json.Unmarshal(service.JSON, &shown) == nil && shown.Federation != nil && shown.Federation.GroupID != ""
}

// releasedBody is the service as OSCAR showed it, without marks. It sends no
// secrets: OSCAR shows them empty, would store what it is sent, and keeps them when
// it is sent none.
func releasedBody(shown json.RawMessage) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(shown, &fields); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	for _, key := range []string{"federation", "clusters", "namespace", "deployment", "volume_status"} {
		delete(fields, key)
	}
	if raw, ok := fields["annotations"]; ok {
		var annotations map[string]string
		if err := json.Unmarshal(raw, &annotations); err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
		maps.DeleteFunc(annotations, func(key, _ string) bool { return isMark(key) })
		fields["annotations"] = mustJSON(annotations)
	}
	if err := withoutSecrets(fields); err != nil {
		return nil, err
	}
	keepOwner(fields)
	keepIsolation(fields)
	return json.Marshal(fields)
}

// withoutSecrets takes the secrets out of a definition that OSCAR showed.
func withoutSecrets(fields map[string]json.RawMessage) error {
	raw, ok := fields["environment"]
	if !ok {
		return nil
	}
	var environment map[string]json.RawMessage
	if err := json.Unmarshal(raw, &environment); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	delete(environment, "secrets")
	fields["environment"] = mustJSON(environment)
	return nil
}

// keepOwner sends the owner always: OSCAR would take an absent one for none, and a
// DELETE of such a service fails.
func keepOwner(fields map[string]json.RawMessage) {
	var owner string
	if json.Unmarshal(fields["owner"], &owner) != nil || owner == "" {
		fields["owner"] = mustJSON(oscar.OwnerAdmin)
	}
}
