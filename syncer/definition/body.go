package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// Fields of a service.
const (
	fieldInput    = "input"
	fieldOutput   = "output"
	fieldMount    = "mount"
	fieldPrefetch = "image_prefetch"
)

// clearStorage takes input, output and mount out of a definition.
func clearStorage(fields map[string]json.RawMessage) {
	fields[fieldInput] = json.RawMessage(`[]`)
	fields[fieldOutput] = json.RawMessage(`[]`)
	fields[fieldMount] = json.RawMessage(`{"storage_provider":"","path":""}`)
}

// withoutElsewhere takes the outputs out of a POST that are in other stores. OSCAR refuses it where their bucket stands
// there, as it does for each replica but the first, and deletes a bucket of that name here when it fails. The PUT that
// follows does neither.
func withoutElsewhere(fields map[string]json.RawMessage) error {
	raw, ok := fields[fieldOutput]
	if !ok {
		return nil
	}
	var outputs []json.RawMessage
	var places []oscar.IO
	if err := errors.Join(json.Unmarshal(raw, &outputs), json.Unmarshal(raw, &places)); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	here := []json.RawMessage{}
	for i, place := range places {
		if !place.Elsewhere() {
			here = append(here, outputs[i])
		}
	}
	var err error
	fields[fieldOutput], err = json.Marshal(here)
	return err
}

// Body is what is sent: the definition without a namespace (OSCAR would honour it),
// without storage when attaching, without outputs elsewhere in a POST that makes buckets,
// and with the annotation that names the buckets that this life made. A PUT keeps what OSCAR
// gave the service that stands, which is nil for a POST: the owner, what it gave to a user's
// service when he made it, and the volume. It empties secrets that are not asked for any more.
// A POST that adopts a volume uses the one that is there.
//
// byOwner says that it is sent with the owner's token.
func (d *Definition) Body(stands *manager.Service, storage, adopts, byOwner bool, made []string) ([]byte, error) {
	fields := maps.Clone(d.fields)
	if err := d.giveVolume(fields, stands, adopts); err != nil {
		return nil, err
	}
	delete(fields, "namespace")
	if stands != nil {
		if err := d.giveBuckets(fields, stands, byOwner); err != nil {
			return nil, err
		}
		if err := d.emptySecrets(fields, stands.JSON); err != nil {
			return nil, err
		}
	}
	fields["owner"] = mustJSON(oscar.OwnerAdmin)
	if stands != nil && stands.Owner != "" {
		fields["owner"] = mustJSON(stands.Owner)
		if err := keepAllotted(fields, stands.JSON); err != nil {
			return nil, err
		}
	}
	switch {
	case !storage:
		clearStorage(fields)
	case stands == nil && d.MakesBuckets():
		if err := withoutElsewhere(fields); err != nil {
			return nil, err
		}
	}
	if len(made) > 0 {
		annotations := maps.Clone(d.Service.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationBuckets] = strings.Join(made, ",")
		fields["annotations"] = mustJSON(annotations)
	}
	return json.Marshal(fields)
}

// keepAllotted keeps the group (VO) that OSCAR found for a user's service, and the
// labels that it set for it, in a definition that does not name them: it would take
// their absence for a change, and the service's jobs would leave the user's quota.
func keepAllotted(fields map[string]json.RawMessage, shown json.RawMessage) error {
	var stands struct {
		VO     string            `json:"vo"`
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(shown, &stands); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	var asked struct {
		VO     string
		Labels map[string]string
	}
	for key, into := range map[string]any{"vo": &asked.VO, "labels": &asked.Labels} {
		if raw, ok := fields[key]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if asked.VO == "" && stands.VO != "" {
		fields["vo"] = mustJSON(stands.VO)
	}
	labels := map[string]string{}
	for _, key := range []string{"vo", "uid", "kueue.x-k8s.io/queue-name"} {
		if value, set := stands.Labels[key]; set {
			labels[key] = value
		}
	}
	if len(labels) > 0 {
		maps.Copy(labels, asked.Labels)
		fields["labels"] = mustJSON(labels)
	}
	return nil
}

// emptySecrets empties the secrets of the service that stands, for a definition without any:
// OSCAR leaves its Secret as it is when it is sent none, and replaces it otherwise.
func (d *Definition) emptySecrets(fields map[string]json.RawMessage, shown json.RawMessage) error {
	if len(d.Service.Environment.Secrets) > 0 {
		return nil
	}
	var stands struct {
		Environment struct {
			Secrets map[string]string `json:"secrets"`
		} `json:"environment"`
	}
	if err := json.Unmarshal(shown, &stands); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	if len(stands.Environment.Secrets) == 0 {
		return nil
	}
	emptied := map[string]string{}
	for name := range stands.Environment.Secrets {
		emptied[name] = ""
	}
	environment := map[string]json.RawMessage{"secrets": mustJSON(emptied)}
	if raw, ok := fields["environment"]; ok {
		var asked map[string]json.RawMessage
		if err := json.Unmarshal(raw, &asked); err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		delete(asked, "secrets")
		maps.Copy(environment, asked)
	}
	fields["environment"] = mustJSON(environment)
	return nil
}

// edited is a definition as JSON after a change to its fields.
func edited(raw json.RawMessage, edit func(fields map[string]json.RawMessage) error) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	if err := edit(fields); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// DetachedBody is the service as OSCAR showed it, without storage. It sends no
// secrets: OSCAR shows them empty, and would store what it is sent. It names no
// members, lest OSCAR speak to them, and gives up user isolation, since OSCAR's
// DELETE deletes the users' own buckets of a service that has it.
func DetachedBody(shown json.RawMessage) ([]byte, error) { return edited(shown, detach) }

func detach(fields map[string]json.RawMessage) error {
	clearStorage(fields)
	for _, key := range []string{"namespace", "clusters", "deployment", "volume_status"} {
		delete(fields, key)
	}
	fields["isolation_level"] = mustJSON("")
	// OSCAR would wait for the image once more, and puts the old definition back where an earlier wait has not ended.
	fields[fieldPrefetch] = json.RawMessage(`false`)
	if err := withoutSecrets(fields); err != nil {
		return err
	}
	if raw, ok := fields["federation"]; ok {
		var federation map[string]json.RawMessage
		if err := json.Unmarshal(raw, &federation); err != nil {
			return fmt.Errorf("federation: %w", err)
		}
		if federation != nil {
			federation["members"] = json.RawMessage(`[]`)
			fields["federation"] = mustJSON(federation)
		}
	}
	keepOwner(fields)
	return nil
}

// unmakeable is the bucket of RegisteringBody. MinIO lets nobody make one of such a name.
const unmakeable = "_oscarfed"

// annotationTaken holds what RegisteringBody has taken out of a service, for ReleasedBody: a service may be released
// before the PUT that brings it back.
const annotationTaken = oscar.AnnotationPrefix + "taken"

// RegisteringBody is the service as OSCAR showed it, with one output, in a bucket that cannot be made. OSCAR goes
// on all the same, and registers the webhook of the service before it stores the definition: it does so for each
// bucket that the definition did not name before, and for no other.
func RegisteringBody(service *manager.Service) ([]byte, error) {
	return edited(service.JSON, func(fields map[string]json.RawMessage) error {
		if !Registering(service) {
			if err := noteTaken(fields); err != nil {
				return err
			}
		}
		fields["visibility"] = mustJSON("private") // lest OSCAR make a group for it
		err := detach(fields)
		fields[fieldOutput] = mustJSON([]map[string]string{{"storage_provider": "minio.default", "path": unmakeable + "/webhook"}})
		return err
	})
}

// takenFields are what it holds.
func takenFields() []string {
	return []string{fieldInput, fieldOutput, fieldMount, fieldPrefetch, "isolation_level", "visibility"}
}

// noteTaken keeps in an annotation what is about to be taken out.
func noteTaken(fields map[string]json.RawMessage) error {
	annotations, err := annotationsOf(fields)
	if err != nil {
		return err
	}
	taken := map[string]json.RawMessage{}
	for _, key := range takenFields() {
		if raw, ok := fields[key]; ok {
			taken[key] = raw
		}
	}
	annotations[annotationTaken] = string(mustJSON(taken))
	fields["annotations"] = mustJSON(annotations)
	return nil
}

// giveBack undoes RegisteringBody. Who has given the service other storage since, or dropped the annotation, has decided
// what it has.
func giveBack(fields map[string]json.RawMessage) error {
	var outputs []map[string]json.RawMessage
	if err := json.Unmarshal(fields[fieldOutput], &outputs); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	outputs = slices.DeleteFunc(outputs, func(output map[string]json.RawMessage) bool {
		var path string
		return json.Unmarshal(output["path"], &path) == nil && strings.HasPrefix(path, unmakeable+"/")
	})
	var err error
	if fields[fieldOutput], err = json.Marshal(outputs); err != nil {
		return err
	}
	annotations, err := annotationsOf(fields)
	if err != nil || annotations[annotationTaken] == "" {
		return err
	}
	stands, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if named, err := namedIn(stands, oscar.Buckets); err != nil || len(named) > 0 {
		return err
	}
	var taken map[string]json.RawMessage
	if err := json.Unmarshal([]byte(annotations[annotationTaken]), &taken); err != nil {
		return fmt.Errorf("annotation %s: %w", annotationTaken, err)
	}
	for _, key := range takenFields() {
		if raw, ok := taken[key]; ok {
			fields[key] = raw
		}
	}
	return nil
}

// annotationsOf are the annotations of a definition, never nil.
func annotationsOf(fields map[string]json.RawMessage) (map[string]string, error) {
	annotations := map[string]string{}
	raw, ok := fields["annotations"]
	if !ok {
		return annotations, nil
	}
	if err := json.Unmarshal(raw, &annotations); err != nil {
		return nil, fmt.Errorf("annotations: %w", err)
	}
	if annotations == nil { // OSCAR shows none as null
		annotations = map[string]string{}
	}
	return annotations, nil
}

// Registering says whether a service, as OSCAR shows it, is what RegisteringBody made of it.
func Registering(service *manager.Service) bool {
	names, err := BucketsOf(service)
	return err == nil && slices.Contains(names, unmakeable)
}

// mustJSON encodes strings and maps of them, which cannot fail.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`null`)
	}
	return data
}

// isMark names the annotations that make a service a member: ours, and those that
// OSCAR understands as a worker of another cluster's service.
func isMark(annotation string) bool {
	return strings.HasPrefix(annotation, oscar.AnnotationPrefix) || annotation == oscar.AnnotationWorker ||
		annotation == oscar.AnnotationOriginCluster || annotation == oscar.AnnotationOriginService
}

// Marked says whether a service carries a mark of a federation, or what RegisteringBody gave it.
func Marked(service *manager.Service) bool {
	for annotation := range service.Annotations {
		if isMark(annotation) {
			return true // as nearly each of ours does: nothing is parsed
		}
	}
	if Registering(service) {
		return true
	}
	var shown struct {
		Federation *struct {
			GroupID string `json:"group_id"`
		} `json:"federation"`
	}
	return json.Unmarshal(service.JSON, &shown) == nil && shown.Federation != nil && shown.Federation.GroupID != ""
}

// ReleasedBody is the service as OSCAR showed it, without marks, and with what RegisteringBody took out of it. It sends no
// secrets: OSCAR shows them empty, would store what it is sent, and keeps them when
// it is sent none.
func ReleasedBody(service *manager.Service) ([]byte, error) {
	return edited(service.JSON, func(fields map[string]json.RawMessage) error {
		for _, key := range []string{"federation", "clusters", "namespace", "deployment", "volume_status"} {
			delete(fields, key)
		}
		if Registering(service) {
			if err := giveBack(fields); err != nil {
				return err
			}
		}
		annotations, err := annotationsOf(fields)
		if err != nil {
			return err
		}
		maps.DeleteFunc(annotations, func(key, _ string) bool { return isMark(key) })
		fields["annotations"] = mustJSON(annotations)
		keepOwner(fields)
		keepIsolation(fields)
		return withoutSecrets(fields)
	})
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

// WithoutSecrets is a body without secrets.
func WithoutSecrets(body []byte) ([]byte, error) { return edited(body, withoutSecrets) }

// WithImage is a body with another image.
func WithImage(body []byte, image string) ([]byte, error) {
	return edited(body, func(fields map[string]json.RawMessage) error {
		fields["image"] = mustJSON(image)
		return nil
	})
}

// BareBody is a body of the definition's life with no more than OSCAR needs to make it, and we to know it.
func (d *Definition) BareBody() ([]byte, error) { return bare(d.fields, d.Service.Annotations) }

// BareShown is BareBody of a service as OSCAR shows it.
func BareShown(service *manager.Service) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(service.JSON, &fields); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return bare(fields, service.Annotations)
}

// BareNoted is a body of BareBody as it was noted. Anybody who may write the note can seal one: it is taken from who knows
// the token that a mark is of.
func BareNoted(note []byte, name, mark string) ([]byte, error) {
	var s oscar.Service
	var fields map[string]json.RawMessage
	// The decoders' errors could quote what they read.
	if json.Unmarshal(note, &fields) != nil || json.Unmarshal(note, &s) != nil || s.Name != name || record.Mark(s.Token) != mark {
		return nil, fmt.Errorf("%w: the note is not of the life that is desired", ErrSpec)
	}
	return bare(fields, s.Annotations)
}

func bare(fields map[string]json.RawMessage, annotations map[string]string) ([]byte, error) {
	out := map[string]json.RawMessage{"script": mustJSON("#!/bin/sh\n"), "owner": mustJSON(oscar.OwnerAdmin)}
	for _, key := range []string{"name", "image", "token", "federation", "vo"} {
		if raw, ok := fields[key]; ok {
			out[key] = raw
		}
	}
	marks := map[string]string{oscar.AnnotationWorker: "true"} // else OSCAR would give it another token
	for key, value := range annotations {
		if isMark(key) && key != annotationBuckets && key != annotationTaken {
			marks[key] = value
		}
	}
	out["annotations"] = mustJSON(marks)
	return json.Marshal(out)
}
