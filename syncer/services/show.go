package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// show answers a question for a service, once. It changes nothing at OSCAR.
func (s *Services) show(ctx context.Context, name string) error {
	view := s.session.Mirror.Snapshot()
	askKey, shownKey := record.AskKey(s.session.ID, name), record.ShownKey(s.session.ID, name)
	kv, ok := view.KV(askKey)
	if !ok {
		return nil
	}
	ask, err := store.Decode[record.Ask](kv)
	if err != nil {
		return err
	}
	if kv, ok := view.KV(shownKey); ok {
		if said, err := store.Decode[record.Shown](kv); err == nil && said.RequestID == ask.RequestID {
			return nil
		}
	}
	answer := record.Shown{V: record.Version, UID: ask.UID, RequestID: ask.RequestID}
	var desired *record.Desired
	if kv, ok := view.KV(record.DesiredServiceKey(s.session.ID, name)); ok {
		if desired, err = store.Decode[record.Desired](kv); err != nil {
			return err
		}
	}
	if err := s.read(ctx, name, desired, ask, &answer); err != nil {
		if manager.Refused(err) || !errors.Is(err, errNotShown) {
			return err // it is tried again
		}
		answer.Sealed, answer.Error = "", err.Error()
	}
	_, err = s.session.Store.Update(ctx, store.Update{
		Keys: []string{s.session.Lease.Key(), askKey, shownKey},
		Build: func(_ store.View, tx *store.Txn) error {
			tx.ExpectSession(s.session.Lease)
			tx.ExpectRevision(askKey, kv.ModRevision)
			tx.Put(shownKey, answer)
			return nil
		},
	})
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		return fmt.Errorf("%w: %w", session.ErrStale, err)
	}
	return err
}

// errNotShown says that asking again would give the same.
var errNotShown = errors.New("it cannot be shown")

// asksAbout says whether a service is of the life that was asked about. Where that is desired, its token tells: every
// user can change the annotations. An orphan has no more than these.
func asksAbout(ask *record.Ask, service *manager.Service, desired *record.Desired) bool {
	if desired != nil && desired.UID == ask.UID {
		return whoseIs(service, desired) == ours
	}
	return service.Annotations[oscar.AnnotationUID] == ask.UID
}

// read fills in the answer. desired is nil when nothing is.
func (s *Services) read(ctx context.Context, name string, desired *record.Desired, ask *record.Ask, answer *record.Shown) error {
	service, err := s.deps.OSCAR.Get(ctx, name)
	if manager.NotFound(err) {
		return fmt.Errorf("%w: there is no service of that name any more", errNotShown)
	}
	if err != nil {
		return err
	}
	if !asksAbout(ask, service, desired) {
		return fmt.Errorf("%w: another service stands there now", errNotShown)
	}
	if service.Annotations[oscar.AnnotationUID] == ask.UID {
		answer.Generation, answer.Epoch = markedGeneration(service)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(service.JSON, &fields); err != nil {
		return fmt.Errorf("%w: OSCAR's answer is no service", errNotShown)
	}
	delete(fields, "token")
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	answer.Sealed, err = seal.Seal(seal.Header{
		Purpose: seal.PurposeShown, Cluster: s.session.ID, UID: ask.UID, Generation: answer.Generation,
	}, body, ask.Recipient)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	return nil
}
