package jobs

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// What is sent is an event of at most the size that the API takes, also as base64, and nothing is cut off.
func TestAnEventIsAsLargeAsTheAPITakes(t *testing.T) {
	for _, tt := range []struct {
		name         string
		base64       bool
		content, all int
	}{
		{"as it is", false, oscar.MaxEventBytes, oscar.MaxEventBytes},
		{"as base64", true, 72 << 10, oscar.MaxEventBytes},
		{"as base64 with a rest", true, 72<<10 - 1, oscar.MaxEventBytes},
		{"nothing", true, 0, 0},
	} {
		content := bytes.Repeat([]byte{0xff}, tt.content)
		c := jobSubmitCmd{File: "-", Base64: tt.base64}
		event, err := c.event(&command.App{Stdin: bytes.NewReader(content)})
		if err != nil || len(event) != tt.all {
			t.Errorf("%s: %d bytes, %v", tt.name, len(event), err)
		}
		if tt.base64 {
			if event, err = base64.StdEncoding.DecodeString(string(event)); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if !bytes.Equal(event, content) {
			t.Errorf("%s: another content", tt.name)
		}
	}
	for _, encoded := range []bool{false, true} {
		content := make([]byte, oscar.MaxEventBytes+1)
		if encoded {
			content = content[:72<<10+1]
		}
		c := jobSubmitCmd{File: "-", Base64: encoded}
		if _, err := c.event(&command.App{Stdin: bytes.NewReader(content)}); exit.StatusOf(err) != exit.Invalid {
			t.Errorf("%d bytes, as base64 %v: %v", len(content), encoded, err)
		}
	}
}

// ends is the stream of a job that has ended.
type ends struct{}

func (ends) RoundTrip(*http.Request) (*http.Response, error) {
	return answer(200, "text/event-stream", "event: job\nid: 1\ndata: {\"id\":\"j\",\"state\":\"succeeded\"}\n\n"), nil
}

// slow is a terminal that takes longer than the command may wait.
type slow struct{ takes time.Duration }

func (s slow) Write(p []byte) (int, error) {
	<-time.After(s.takes)
	return len(p), nil
}

// A job whose end was seen is waited for no longer, however long it takes to show it.
func TestAnEndThatIsSeenIsTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := client.New(client.Config{Endpoint: "http://api.test", Transport: ends{}})
		if err != nil {
			t.Fatal(err)
		}
		c := jobSubmitCmd{Timeout: time.Minute}
		var out bytes.Buffer
		if err := c.await(t.Context(), &command.App{Stdout: &out, Stderr: slow{time.Hour}, Form: "name", Now: time.Now}, api, "j"); err != nil || out.String() != "j\n" {
			t.Errorf("%v: %q", err, out.String())
		}
	})
}
