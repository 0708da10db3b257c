package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const streamType = "text/event-stream"

// streamEvents names, for each event of a described stream, the schema of its data.
const streamEvents = "x-events"

func isStream(header http.Header) bool { return header.Get("Content-Type") == streamType }

// checkEvents compares the events of a stream, as far as it got, with their
// schemas. What a broken connection left behind the last event is not looked at.
func (c *Checker) checkEvents(content *openapi3.MediaType, body []byte) error {
	described, _ := content.Extensions[streamEvents].(map[string]any)
	blocks := strings.Split(string(body), "\n\n")
	for _, block := range blocks[:len(blocks)-1] {
		if block == ": ping" {
			continue
		}
		if err := c.checkEvent(described, block); err != nil {
			return fmt.Errorf("event %.200q: %w", block, err)
		}
	}
	return nil
}

func (c *Checker) checkEvent(described map[string]any, block string) error {
	fields := map[string]string{}
	for line := range strings.Lines(block) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if _, twice := fields[name]; !ok || twice {
			return fmt.Errorf("the line %.40q does not belong there", line)
		}
		fields[name] = value
	}
	if id, given := fields["id"]; given {
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 {
			return errors.New("the id is no revision")
		}
	}
	name, ok := described[fields["event"]].(string)
	if !ok || c.schemas[name] == nil {
		return fmt.Errorf("the event %q is not described", fields["event"])
	}
	var data any
	if err := json.Unmarshal([]byte(fields["data"]), &data); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return c.schemas[name].Value.VisitJSON(data, openapi3.MultiErrors())
}
