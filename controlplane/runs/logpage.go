package runs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// logCursor is where each member's own pages stand.
type logCursor struct {
	// From is the first member that was not asked yet.
	From int `json:"n"`
	// Pages are of members that have more, by the uid of the replica.
	Pages []logPage `json:"p,omitempty"`
}

type logPage struct {
	UID  string `json:"u"`
	Page string `json:"t"`
}

func (c logCursor) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		return "" // it has strings and numbers alone
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func readLogCursor(text string) (c logCursor, err error) {
	if text == "" {
		return c, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > maxLogCursor || json.Unmarshal(data, &c) != nil || c.From < 0 || len(c.Pages) > membersAtOnce {
		return logCursor{}, fault.Invalid(oscar.Violation{
			Path: "?page", Rule: oscar.RuleType, Message: "it is no page of this list; leave it out to begin anew",
		})
	}
	return c, nil
}

// memberPage is what one OSCAR answers.
type memberPage struct {
	Jobs      map[string]JobInfo `json:"jobs"`
	NextPage  string             `json:"next_page"`
	Remaining int64              `json:"remaining_jobs"`
}

// maxMemberPage bounds the page's token of one member in bytes; Kubernetes' have a few hundred.
const maxMemberPage = 700

func (c *Controller) jobPage(ctx context.Context, t target, page string) (out memberPage, err error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	resp, err := c.relay.Jobs(ctx, t.Replica, page)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return out, tooSlow(err)
	}
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("OSCAR answered %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxJobList+1))
	switch {
	case err != nil:
		return out, fmt.Errorf("the answer broke off: %w", err)
	case len(data) > maxJobList:
		return out, fmt.Errorf("the answer is larger than %d bytes", maxJobList)
	case len(data) == 0: // OSCAR's word for a service that is not there any more
		return out, nil
	}
	if err := json.Unmarshal(data, &out); err != nil || len(out.NextPage) > maxMemberPage {
		return memberPage{}, errors.New("the answer is not what OSCAR v4.1 sends")
	}
	out.Remaining = max(0, out.Remaining)
	return out, nil
}

// reasonOf is what a caller is told of a member that has not answered.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*relay.Error](err); ok {
		return e.Text
	}
	return err.Error()
}
