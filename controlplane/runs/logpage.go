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
	// Skipped are the uids of members that were silent while a page became full. They are asked last.
	Skipped []string `json:"s,omitempty"`
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
	// silent says that it has given up its place, and answered that it has its part in the page: Jobs, nothing or an
	// error.
	silent, answered bool
}

// holds says that the member has answered with something that takes a place in the page.
func (p *logPart) holds() bool { return p.err == nil && (len(p.Jobs) > 0 || p.NextPage != "") }

// parts are what may be asked for the page that begins at a cursor, in that order: what members have more, the members
// that were not asked, those that were skipped. members are in the order of their uids.
func (c logCursor) parts(members []target) (parts []*logPart) {
	asked := map[string]bool{}
	add := func(uid, page string) {
		i := slices.IndexFunc(members, func(t target) bool { return t.UID == uid })
		if i >= 0 && !asked[uid] { // it may have left meanwhile
			parts, asked[uid] = append(parts, &logPart{target: members[i], page: page}), true
		}
	}
	for _, p := range c.Pages {
		add(p.UID, p.Page)
	}
	for _, t := range members {
		if t.UID > c.After {
			add(t.UID, "")
		}
	}
	for _, uid := range c.Skipped {
		add(uid, "")
	}
	return parts
}

// following is where the next page begins after a page that was made of parts, of which some were not asked.
func (c logCursor) following(asked, unasked []*logPart) (next logCursor, end bool) {
	next.After = c.After
	for _, p := range asked {
		switch {
		case p.answered && p.NextPage != "":
			next.Pages = append(next.Pages, logPage{p.UID, p.NextPage})
		case !p.answered:
			next.Skipped = append(next.Skipped, p.UID)
		}
		next.After = max(next.After, p.UID)
	}
	for _, p := range unasked {
		if p.UID <= c.After {
			next.Skipped = append(next.Skipped, p.UID)
		}
	}
	return next, len(unasked)+len(next.Pages)+len(next.Skipped) == 0
}

// jobList is the page of a list that begins at a cursor, and whether any member has answered its part. To OSCAR's client a
// page without Jobs is the last one: so a page goes on to the next members while it has place, if it waits that long.
func jobList(ctx context.Context, members []target, cursor logCursor, ask func(context.Context, target, string) (memberPage, error)) (out *JobList, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	members = slices.SortedFunc(slices.Values(members), func(a, b target) int { return cmp.Compare(a.UID, b.UID) })
	asked, unasked := askForPage(ctx, cursor.parts(members), ask)
	out = &JobList{Jobs: map[string]JobInfo{}}
	var remaining int64
	for _, p := range asked {
		switch {
		case !p.answered:
			continue
		case p.err != nil:
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
			remaining += p.Remaining
		}
	}
	if remaining > 0 {
		out.Remaining = &remaining
	}
	if next, end := cursor.following(asked, unasked); !end {
		out.Next = next.String()
	}
	return out, answered
}

// askForPage asks for parts, in their order, until membersAtOnce members have answered with Jobs, all were asked, or
// none that is asked now could list its Jobs in time. So many are asked at a time, beside those that are silent:
// these have a part in the page if there is place once they answer. One that has more than it has shown keeps its
// place.
func askForPage(ctx context.Context, parts []*logPart, ask func(context.Context, target, string) (memberPage, error)) (asked, unasked []*logPart) {
	type event struct {
		*logPart
		answer *memberPage // nil when it is silent
		err    error
	}
	events := make(chan event, 2*len(parts))
	latest := time.Now().Add(memberTimeout - fullPage)
	waiting := map[*logPart]bool{}
	// places are those of members that are asked, and of those that have answered.
	for places, full := 0, 0; ; {
		for len(asked) < len(parts) && places < membersAtOnce && time.Now().Before(latest) {
			p := parts[len(asked)]
			asked, waiting[p] = append(asked, p), true
			places++
			go func() {
				if p.page == "" {
					defer time.AfterFunc(silentAfter, func() { events <- event{logPart: p} }).Stop()
				}
				answer, err := ask(ctx, p.target, p.page)
				events <- event{p, &answer, err}
			}()
		}
		if len(waiting) == 0 || full == membersAtOnce {
			return asked, parts[len(asked):]
		}
		e := <-events
		switch p := e.logPart; {
		case !waiting[p]: // it was silent when it has just answered
		case e.answer == nil:
			p.silent = true
			places--
		default:
			delete(waiting, p)
			p.memberPage, p.err, p.answered = *e.answer, e.err, true
			switch {
			case p.silent && p.holds() && places == membersAtOnce:
				p.memberPage, p.answered = memberPage{}, false
			case p.holds():
				full++
				if p.silent {
					places++
				}
			case !p.silent:
				places--
			}
		}
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
