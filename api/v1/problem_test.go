package v1

import (
	"encoding/json"
	"testing"
)

func TestAViolationWithoutAValueHasNone(t *testing.T) {
	for want, v := range map[string]Violation{
		`{"path":"name","rule":"required","message":"m"}`:          {Path: "name", Rule: "required", Message: "m"},
		`{"path":"name","rule":"name","value":"","message":"m"}`:   {Path: "name", Rule: "name", Value: "", Message: "m"},
		`{"path":"cpu","rule":"quantity","value":0,"message":"m"}`: {Path: "cpu", Rule: "quantity", Value: 0, Message: "m"},
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s (%v), want %s", got, err, want)
		}
	}
}
