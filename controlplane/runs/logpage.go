package runs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// logCursor is where each member's own pages stand.
type logCursor struct {
	// After is the uid of the last member that was asked: they are asked in that order. It may have left meanwhile.
	After string `json:"a"`
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
	if err != nil || len(text) > maxLogCursor || json.Unmarshal(data, &c) != nil || len(c.Pages) > membersAtOnce {
		return logCursor{}, fault.Invalid(oscar.Violation{
			Path: "?page", Rule: oscar.RuleType, Message: "it is no page of this list; leave it out to begin anew",
		})
	}
	return c, nil
}

// logPart is the part of a page that one member is asked for.
type logPart struct {
	target
	page string
	memberPage
	err error
}

// parts are those of the page that begins at a cursor, and where the next one begins. members are in the order of their uids.
func (c logCursor) parts(members []target) (parts []*logPart, next logCursor) {
	next.After = c.After
	for _, p := range c.Pages {
		i := slices.IndexFunc(members, func(t target) bool { return t.UID == p.UID })
		if i >= 0 { // it may have left meanwhile
			parts = append(parts, &logPart{target: members[i], page: p.Page})
		}
	}
	for _, t := range members {
		if t.UID > next.After && len(parts) < membersAtOnce {
			parts, next.After = append(parts, &logPart{target: t}), t.UID
		}
	}
	return parts, next
}

// jobList is the page of a list that begins at a cursor, and whether any member has answered its part. To OSCAR's client a
// page without Jobs is the last one: the next members are asked then, if it waits that long.
func jobList(ctx context.Context, members []target, cursor logCursor, ask func(context.Context, target, string) (memberPage, error)) (out *JobList, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	members = slices.SortedFunc(slices.Values(members), func(a, b target) int { return cmp.Compare(a.UID, b.UID) })
	out = &JobList{Jobs: map[string]JobInfo{}}
	for latest := time.Now().Add(memberTimeout - fullPage); ; {
		parts, next := cursor.parts(members)
		var asking sync.WaitGroup
		for _, p := range parts {
			asking.Go(func() { p.memberPage, p.err = ask(ctx, p.target, p.page) })
		}
		asking.Wait()
		var remaining int64
		for _, p := range parts {
			if p.err != nil {
				out.Missing = append(out.Missing, p.Cluster+": "+reasonOf(p.err))
				continue
			}
			answered = true
			for name, job := range p.Jobs {
				job.ClusterID = p.Cluster
				if _, twice := out.Jobs[name]; !twice {
					out.Jobs[name] = job
				}
			}
			if p.NextPage != "" {
				next.Pages = append(next.Pages, logPage{p.UID, p.NextPage})
				remaining += p.Remaining
			}
		}
		out.Next, out.Remaining = "", nil
		if remaining > 0 {
			out.Remaining = &remaining
		}
		if len(next.Pages) > 0 || len(members) > 0 && next.After < members[len(members)-1].UID {
			out.Next = next.String()
		}
		if len(out.Jobs) > 0 || out.Next == "" || time.Now().After(latest) {
			return out, answered
		}
		cursor = next
	}
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
	if err := decodeAnswer(data, maxJobValues, &out); err != nil || len(out.NextPage) > maxMemberPage {
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
