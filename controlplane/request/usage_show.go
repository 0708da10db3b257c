package request

import (
	"cmp"
	"context"
	"slices"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Usage says what each account has in etcd: the administrator is shown every account that has
// anything, and a user is shown the own one.
func (c *Controller) Usage(ctx context.Context, caller identity.Caller) (*v1.Usage, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	out := &v1.Usage{BudgetBytes: c.budget(), Accounts: []v1.AccountUsage{}}
	u := c.counters.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if !caller.Administrator {
		own, known := u.accounts[ownerOfRequest(caller.Subject)]
		if !known {
			own = &account{}
		}
		out.Accounts = append(out.Accounts, u.show(caller.Subject, own, out.BudgetBytes))
		return out, nil
	}
	for digits, a := range u.accounts {
		if one := u.show(cmp.Or(a.subject, digits), a, out.BudgetBytes); one.UsedBytes > 0 || one.AuditBytes > 0 {
			out.Accounts = append(out.Accounts, one)
		}
	}
	slices.SortFunc(out.Accounts, func(a, b v1.AccountUsage) int {
		return cmp.Or(cmp.Compare(b.UsedBytes, a.UsedBytes), cmp.Compare(a.Subject, b.Subject))
	})
	return out, nil
}

// show needs mu.
func (u *usage) show(subject string, a *account, budget int64) v1.AccountUsage {
	freed := a.stillFreed(u.now())
	out := v1.AccountUsage{
		Subject: subject, UsedBytes: a.used() + freed,
		FederationBytes: a.live[useFederations], PartBytes: a.live[useParts], DesiredBytes: a.live[useDesired],
		HistoryBytes: a.live[useHistory], DeletedBytes: a.live[useDeleted], JobBytes: a.live[useJobs],
		RequestBytes: a.live[useRequests], FreedBytes: freed, PendingBytes: a.pending, AuditBytes: a.live[useAudit],
	}
	if subject != identity.Admin {
		left := max(budget-out.UsedBytes, 0)
		out.LeftBytes = &left
	}
	return out
}
