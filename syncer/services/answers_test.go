package services

import (
	"encoding/json"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// FuzzAnswers: whatever an OSCAR answers, it is understood or refused.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"name":"s","token":"t","annotations":{"oscarfed/uid":"u"},"input":[{}],"labels":[]}`), []byte(`{"name":"s","input":[{"path":1}]}`))
	f.Add([]byte(`{"environment":{"secrets":[]},"federation":null,"mount":[]}`), []byte(`{"environment":{"variables":null}}`))
	f.Fuzz(func(t *testing.T, answer, asked []byte) {
		var s manager.Service
		if json.Unmarshal(answer, &s) != nil {
			return
		}
		localOf(&s, desired(record.IntentApply))
		if body, err := definition.DetachedBody(s.JSON); err == nil {
			var after manager.Service
			if err := json.Unmarshal(body, &after); err != nil || after.Storage {
				t.Fatalf("detaching %s gives %s: %v", answer, body, err)
			}
		}
		want, err := definition.DecodeObject(asked)
		if err != nil {
			return
		}
		if got, err := definition.DecodeObject(answer); err == nil {
			definition.Difference(want, got)
			if _, err := definition.ReadBack(got); err != nil {
				t.Fatal(err)
			}
		}
	})
}
