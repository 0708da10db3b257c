package runs

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// manyMembers are 120, of which the first ones are hanging: their OSCARs do not answer.
func manyMembers(hanging int) (members []target, hangs map[string]bool) {
	hangs = map[string]bool{}
	var clusters []string
	for i := range 120 {
		clusters = append(clusters, fmt.Sprintf("%03d", i))
		hangs[clusters[i]] = i < hanging
	}
	return targets(clusters...), hangs
}

// hang is an OSCAR that does not answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return &relay.Error{Text: "its stream broke off", Sent: true, Err: ctx.Err()}
}

// TestAPageHasTheJobsOfMembersThatAnswer, however many others do not. Each member is on one page: those that do not
// answer on the last ones, where it is said of them.
func TestAPageHasTheJobsOfMembersThatAnswer(t *testing.T) {
	for _, tt := range []struct {
		hanging, pages int
		within         time.Duration // of all pages
	}{
		{0, 8, time.Second}, {1, 8, memberTimeout + 2*silentAfter}, {membersAtOnce, 8, memberTimeout + 2*silentAfter},
		{2*membersAtOnce - 1, 7, 2*memberTimeout + 2*silentAfter},
	} {
		t.Run(fmt.Sprint(tt.hanging), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				members, hangs := manyMembers(tt.hanging)
				var flying, most atomic.Int64
				ask := func(ctx context.Context, one target, page string) (memberPage, error) {
					most.Store(max(most.Load(), flying.Add(1)))
					defer flying.Add(-1)
					<-time.After(time.Millisecond)
					if hangs[one.Cluster] {
						return memberPage{}, hang(ctx)
					}
					return memberPage{Jobs: map[string]JobInfo{"job of " + one.Cluster: {}}}, nil
				}
				jobs, missing := map[string]bool{}, map[string]bool{}
				pages, began := 0, time.Now()
				for cursor := (logCursor{}); ; pages++ {
					list, _ := jobList(t.Context(), members, cursor, ask)
					synctest.Wait()
					for name := range list.Jobs {
						if jobs[name] {
							t.Errorf("the %s is on two pages", name)
						}
						jobs[name] = true
					}
					if len(list.Jobs) == 0 && list.Next != "" && len(jobs) < len(members)-tt.hanging {
						t.Errorf("page %d has no jobs", pages)
					}
					for _, why := range list.Missing {
						missing[why] = true
					}
					if list.Next == "" {
						break
					}
					var err error
					if cursor, err = readLogCursor(list.Next); err != nil {
						t.Fatal(err)
					}
				}
				if len(jobs) != len(members)-tt.hanging || len(missing) != tt.hanging {
					t.Errorf("there are jobs of %d members, and %d are missing", len(jobs), len(missing))
				}
				if took := time.Since(began); took > tt.within || pages+1 > tt.pages {
					t.Errorf("it took %d pages, and %s", pages+1, took)
				}
				if most.Load() > 2*membersAtOnce {
					t.Errorf("%d were asked at the same time", most.Load())
				}
			})
		})
	}
}

// TestAPlaceInTheListOfJobsCanBeReadAgain with the longest pages of members, while all others are silent.
func TestAPlaceInTheListOfJobsCanBeReadAgain(t *testing.T) {
	var c logCursor
	uid := func(i int) string { return fmt.Sprintf("0199d0a1-7c00-7000-8000-%012d", i) }
	for i := range membersAtOnce {
		c.Pages = append(c.Pages, logPage{uid(i), strings.Repeat("x", maxMemberPage)})
	}
	for i := range 120 - membersAtOnce {
		c.Skipped = append(c.Skipped, uid(membersAtOnce+i))
	}
	c.After = uid(119)
	if _, err := readLogCursor(c.String()); err != nil {
		t.Errorf("%d bytes: %v", len(c.String()), err)
	}
}

// TestAMemberThatWasSilentHasItsPartWhereThereIsPlace, and one that was skipped on the next page.
func TestAMemberThatWasSilentHasItsPartWhereThereIsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, slow := manyMembers(membersAtOnce)
		ask := func(ctx context.Context, one target, _ string) (memberPage, error) {
			if slow[one.Cluster] {
				select {
				case <-time.After(fullPage):
				case <-ctx.Done():
					return memberPage{}, ctx.Err()
				}
			}
			return memberPage{Jobs: map[string]JobInfo{one.Cluster: {}}, NextPage: "more", Remaining: 1}, nil
		}
		few, _ := jobList(t.Context(), members[:membersAtOnce+3], logCursor{}, ask)
		if len(few.Jobs) != membersAtOnce || few.Missing != nil {
			t.Errorf("%d of the %d have jobs; missing: %q", len(few.Jobs), membersAtOnce+3, few.Missing)
		}
		all, _ := jobList(t.Context(), members, logCursor{}, ask)
		next, err := readLogCursor(all.Next)
		if err != nil || len(all.Jobs) != membersAtOnce || len(next.Pages) != membersAtOnce || len(next.Skipped) != membersAtOnce || all.Missing != nil {
			t.Errorf("%d jobs, missing: %q, %+v follows, %v", len(all.Jobs), all.Missing, next, err)
		}
		synctest.Wait()
	})
}

// TestAnOrderReachesTheMembersThatAnswer, however many others do not.
func TestAnOrderReachesTheMembersThatAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, hangs := manyMembers(3 * membersAtOnce)
		var asked atomic.Int64
		sent := order(t.Context(), members, nil, func(ctx context.Context, one target) (*http.Response, error) {
			if ctx.Err() == nil {
				asked.Add(1)
			}
			if hangs[one.Cluster] || ctx.Err() != nil {
				return nil, hang(ctx)
			}
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		}, http.StatusNoContent, http.StatusNotFound)
		if sent.done != len(members)-3*membersAtOnce || len(sent.missing) != 3*membersAtOnce || int(asked.Load()) != len(members) {
			t.Errorf("%d have done it, %d are missing, %d of %d were asked", sent.done, len(sent.missing), asked.Load(), len(members))
		}
	})
}
