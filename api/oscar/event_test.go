package oscar_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
)

func TestWhatIsAnEventOfABucket(t *testing.T) {
	const minio = `{"EventName":"s3:ObjectCreated:Put","Key":"b/in/x","Records":[{"eventName":"s3:ObjectCreated:Put",` +
		`"requestParameters":{"principalId":"62bb11b40398@egi.eu","sourceIPAddress":"10.0.0.1"},"s3":{"bucket":{"name":"b"},"object":{"key":"in%2Fx"}}}]}`
	for name, c := range map[string]struct {
		body      string
		bucket    bool
		principal string
	}{
		"of MinIO":                    {minio, true, "62bb11b40398@egi.eu"},
		"nothing":                     {``, false, ""},
		"text":                        {`hello`, false, ""},
		"a number":                    {`1`, false, ""},
		"null":                        {`null`, false, ""},
		"a list":                      {`[{"s3":{}}]`, false, ""},
		"another object":              {`{"a":1}`, false, ""},
		"cut off":                     {minio[:len(minio)-2], false, ""},
		"with something behind":       {minio + `x`, false, ""},
		"no records":                  {`{"Records":[]}`, false, ""},
		"records that are no list":    {`{"Records":{"s3":{}}}`, false, ""},
		"a record that is no object":  {`{"Records":["s3"]}`, false, ""},
		"keys in other letters":       {`{"records":[{"s3":{}}]}`, false, ""},
		"the last of two keys counts": {`{"Records":[{"s3":{}}],"Records":[]}`, false, ""},
		"s3 is null":                  {`{"Records":[{"s3":null}]}`, false, ""},
		"without a user":              {`{"Records":[{"s3":{"bucket":{"name":"b"}}}]}`, true, ""},
		"without an address":          {`{"Records":[{"requestParameters":{"principalId":"u"}}]}`, true, ""},
		"an address that is no text":  {`{"Records":[{"requestParameters":{"principalId":"u","sourceIPAddress":1}}]}`, true, ""},
		"a user that is null":         {`{"Records":[{"requestParameters":{"principalId":null,"sourceIPAddress":""}}]}`, true, ""},
		"OSCAR's word for nobody":     {`{"Records":[{"requestParameters":{"principalId":" nil ","sourceIPAddress":""}}]}`, true, ""},
		"blanks":                      {`{"Records":[{"requestParameters":{"principalId":"  ","sourceIPAddress":""}}]}`, true, ""},
		"an address that is empty":    {`{"Records":[{"requestParameters":{"principalId":"u","sourceIPAddress":""}}]}`, true, "u"},
		"handed on by an OSCAR":       {`{"storage_provider":"minio.default","event":"{\"Records\":[{\"s3\":{}}]}"}`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := oscar.BucketEvent([]byte(c.body)); got != c.bucket {
				t.Errorf("an event of a bucket: %v, want %v", got, c.bucket)
			}
			if got := oscar.EventPrincipal([]byte(c.body)); got != c.principal {
				t.Errorf("it is of %q, want %q", got, c.principal)
			}
		})
	}
}
