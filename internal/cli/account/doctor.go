package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/version"
)

// The results of a check.
const (
	CheckOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// Check is one line of the doctor's report.
type Check struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Found  string `json:"found"`
	// Do is what to do; empty when nothing is.
	Do string `json:"do,omitempty"`
}

// doctor makes a report.
type doctor struct {
	app    *command.App
	checks []Check
}

func (d *doctor) okf(what, format string, args ...any) {
	d.add(Check{Check: what, Result: CheckOK, Found: fmt.Sprintf(format, args...)})
}

func (d *doctor) warnf(what, do, format string, args ...any) {
	d.add(Check{Check: what, Result: checkWarn, Found: fmt.Sprintf(format, args...), Do: do})
}

func (d *doctor) fail(what, do string, err error) {
	d.add(Check{Check: what, Result: checkFail, Found: err.Error(), Do: do})
}

func (d *doctor) add(c Check) { d.checks = append(d.checks, c) }

type doctorCmd struct {
	Timeout time.Duration
}

// Doctor is `oscarfed doctor`.
func Doctor(a *command.App) *cobra.Command {
	var c doctorCmd
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check all from here to every OSCAR, and say what to do",
		Long: "Check the address of the API, its certificate and clock, the login, the issuers, the versions, etcd, and\n" +
			"every cluster. An administrator sees more. The status is 1 when a check fails; warnings are no failure.",
		Example: "  oscarfed doctor\n  oscarfed doctor -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
	command.FlagsOf(cmd).Timeout(&c.Timeout, command.DefaultTimeout, "How long all checks may take.")
	return cmd
}

func (c *doctorCmd) Run(ctx context.Context, a *command.App) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, exit.Errorf(exit.NotReachable, "the checks took longer than --timeout %s", c.Timeout))
	defer cancel()
	d := &doctor{app: a}
	if err := d.examine(ctx); err != nil {
		return err
	}
	err := a.Unbounded().Print(d.checks, func() *output.Table {
		t := output.NewTable("CHECK", "RESULT", "FOUND", "DO")
		for _, c := range d.checks {
			t.Row(c.Check, c.Result, c.Found, cmp.Or(c.Do, "-"))
		}
		return t
	})
	failed := 0
	for _, c := range d.checks {
		if c.Result == checkFail {
			failed++
		}
	}
	if err == nil && failed > 0 {
		err = exit.Errorf(exit.Failed, "%d of %d checks failed", failed, len(d.checks))
	}
	return err
}

// examine makes the checks, from here outwards. What cannot be asked ends it: the rest would fail for
// the same reason.
func (d *doctor) examine(ctx context.Context) error {
	roots, err := d.app.Connection.Roots()
	if err != nil {
		return err
	}
	api, err := d.app.Dial()
	if err != nil {
		return err
	}
	if !d.address(ctx, "api", d.app.Connection.Endpoint, roots, false) || !d.health(ctx, roots) {
		return nil
	}
	d.issuers(ctx, api)
	if !d.caller(ctx, api) {
		return nil
	}
	ours := d.controlPlane(ctx, api)
	d.clusters(ctx, api, ours)
	return nil
}

// caller checks who the API takes the caller for.
func (d *doctor) caller(ctx context.Context, api *client.Client) bool {
	who, err := api.WhoAmI(ctx)
	if err != nil {
		do := "oscarfed login, or give --user and --password-file"
		if exit.StatusOf(err) == exit.NotFound {
			do = "the control plane is older than this program: upgrade it"
		}
		d.fail("login", do, err)
		return false
	}
	found := who.Subject + " may " + strings.Join(who.Rights, ", ")
	if who.TokenExpiresAt != nil {
		found += ", until " + who.TokenExpiresAt.UTC().Format(time.RFC3339)
	}
	d.okf("login", "%s", found)
	return true
}

// issuers checks that people can log in from here.
func (d *doctor) issuers(ctx context.Context, api *client.Client) {
	named, err := api.Login(ctx)
	if err != nil {
		d.warnf("issuers", "upgrade the control plane", "%v", err)
		return
	}
	for _, i := range named.Issuers {
		what := "issuer " + i.Issuer
		p, err := login.Discover(ctx, i.Issuer, i.ClientID)
		switch {
		case err != nil:
			d.fail(what, "no one can log in there from here: is it reachable?", err)
			continue
		case i.ClientID == "":
			d.warnf(what, "set --oidc-client-id of the control plane, for oscarfed login", "it answers; the control plane names no client")
		case p.Ahead().Abs() > maxSkew:
			d.warnf(what, "set the clock of this machine", "its clock and that of this machine differ by %s", p.Ahead().Abs().Round(time.Second))
		default:
			d.okf(what, "it answers")
		}
		p.Close()
	}
}

// controlPlane checks versions, and what the administrator is told of etcd. It returns the version of
// the control plane.
func (d *doctor) controlPlane(ctx context.Context, api *client.Client) string {
	info, err := api.Info(ctx)
	if err != nil {
		d.fail("control plane", "read its log", err)
		return ""
	}
	if mine := version.Get().Version; mine != info.OscarfedVersion {
		d.warnf("version", "use the same version", "the control plane is %s, this program %s", info.OscarfedVersion, mine)
	} else {
		d.okf("version", "%s", mine)
	}
	if info.UpgradeUnfinished {
		d.warnf("upgrade", "when this version has proved itself: oscarfed finish-upgrade", "it is not finished: the version before can come back")
	}
	etcd := info.Etcd
	switch {
	case etcd == nil: // told to the administrator alone
	case etcd.Space == "ok":
		d.okf("etcd", "%d MiB in use", etcd.InUseBytes>>20)
	case etcd.Space == "full":
		d.fail("etcd", etcd.Advice, errors.New("it has no space: nothing can be written"))
	default:
		d.warnf("etcd", etcd.Advice, "space is %s: %d of %d MiB", etcd.Space, etcd.SizeBytes>>20, etcd.QuotaBytes>>20)
	}
	return info.OscarfedVersion
}

// clusters checks every cluster: what its syncer reports and, where their addresses are told, the way to
// its OSCAR and to its MinIO. ours is the version of the control plane.
func (d *doctor) clusters(ctx context.Context, api *client.Client, ours string) {
	list, err := api.Clusters(ctx)
	if err != nil {
		d.fail("clusters", "read the log of the control plane", err)
		return
	}
	if len(list) == 0 {
		d.warnf("clusters", "oscarfed cluster add", "none is registered")
	}
	for i := range list {
		d.cluster(ctx, &list[i], ours)
	}
}

// endOf is how the state of a cluster ends that somebody has ordered.
func endOf(c *v1.Cluster) string {
	switch c.State {
	case v1.ClusterPaused:
		return "if it need not be any more: oscarfed cluster resume " + c.ClusterID
	case v1.ClusterCordoned:
		return "if it need not be any more: oscarfed cluster uncordon " + c.ClusterID
	}
	return "wait until it has ended"
}

func (d *doctor) cluster(ctx context.Context, c *v1.Cluster, ours string) {
	what := "cluster " + c.ClusterID
	do := cmp.Or(c.Hint, "see the log of oscar-syncer there")
	switch {
	case !c.Alive:
		found := "its syncer is not connected"
		if c.LastSeen != nil {
			found += " since " + c.LastSeen.UTC().Format(time.RFC3339)
		}
		d.fail(what, do, errors.New(found))
	case c.Reason != "":
		d.fail(what, do, errors.New(strings.TrimSuffix(c.Reason+": "+c.Message, ": ")))
	case c.State != v1.ClusterActive:
		d.warnf(what, cmp.Or(c.Hint, endOf(c)), "it is %s", c.State)
	case c.UID != "" && !c.Stream: // a user is not told
		d.warnf(what, "does its syncer reach this instance (--api-endpoint)?", "no stream: logs and invocations do not reach it")
	default:
		d.okf(what, "OSCAR %s", cmp.Or(c.OscarVersion, "of an unknown version"))
	}
	if orphans := len(c.Orphans); orphans > 0 {
		d.warnf(what, "oscarfed describe lists them, and what oscarfed resolve would do", "%s there without a record", output.Count(orphans, "service"))
	}
	if c.SyncerVersion != "" && ours != "" && c.SyncerVersion != ours {
		d.warnf(what, "upgrade the one that is older", "its syncer is %s, the control plane %s", c.SyncerVersion, ours)
	}
	if len(c.DeniedRights) > 0 {
		d.warnf(what, "grant them, as the chart oscar-syncer does, unless they were left out on purpose",
			"its syncer may not, in Kubernetes: %s", strings.Join(c.DeniedRights, "; "))
	}
	if c.Endpoint != "" && c.SSLVerify {
		d.address(ctx, what, c.Endpoint, nil, true)
	}
	switch {
	case c.MinioEndpoint != "":
		d.address(ctx, what+" storage", c.MinioEndpoint, nil, true)
	case c.UID != "" && c.Alive && c.Reason == "":
		d.warnf(what+" storage", "see the log of oscar-syncer there", "its OSCAR does not say where its MinIO is")
	}
}
