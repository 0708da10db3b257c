package history_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/history"
)

// A secret in an answer is seen, also when it is hidden in base64; other texts are not secrets.
func TestASecretInAnAnswerIsSeen(t *testing.T) {
	t.Parallel()
	const token = "token-of-a-person"
	for body, told := range map[string]bool{
		"nothing": false, "a " + token + " is told": true, base64.StdEncoding.EncodeToString([]byte("a " + token)): true,
	} {
		c := history.NewCanaries()
		c.Add(token)
		api := c.Watch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for part := range strings.SplitAfterSeq(body, "-") { // no write has all of it
				_, _ = io.WriteString(w, part)
			}
		}))
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/system/services", nil))
		if seen := c.Seen(); len(seen) > 0 != told {
			t.Errorf("of %q was seen %q", body, seen)
		}
	}
}
