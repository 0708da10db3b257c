package oscar

import (
	"encoding/json"
	"strings"
)

// BucketEvent says whether the body of a job is an event of a bucket, as MinIO and S3
// send it: a JSON object whose Records begin with one that names an object (s3) or a
// caller (requestParameters). The job then reads the object that it names.
func BucketEvent(body []byte) bool {
	first := firstRecord(body)
	return object(first["s3"]) != nil || object(first["requestParameters"]) != nil
}

// EventPrincipal is the user whom OSCAR takes as the sender of an event of a bucket, whatever its
// real sender; empty when it finds none. It follows OSCAR: keys are compared letter by letter, the
// first of the Records counts, and one without an address of its sender has no user, nor has
// "nil", which is OSCAR's own word for none.
func EventPrincipal(body []byte) string {
	request := object(firstRecord(body)["requestParameters"])
	principal, ok := stringOf(request["principalId"])
	if _, sent := stringOf(request["sourceIPAddress"]); !ok || !sent {
		return ""
	}
	if principal = strings.TrimSpace(principal); principal == "nil" {
		return ""
	}
	return principal
}

// firstRecord is the first of an event's Records; nil for none.
func firstRecord(body []byte) map[string]json.RawMessage {
	var records []json.RawMessage
	if json.Unmarshal(object(body)["Records"], &records) != nil || len(records) == 0 {
		return nil
	}
	return object(records[0])
}

// object reads a JSON object; nil when it is none. Maps, and not structs, keep the case
// of keys.
func object(raw json.RawMessage) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

func stringOf(raw json.RawMessage) (string, bool) {
	var out *string
	if json.Unmarshal(raw, &out) != nil || out == nil {
		return "", false
	}
	return *out, true
}
