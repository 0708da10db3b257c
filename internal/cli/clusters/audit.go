package clusters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getAuditCmd struct {
	Federation string
	By         string
	Cluster    string
	Request    string
	Limit      int
	Before     string
}

// GetAudit is `oscarfed get audit`.
func GetAudit(a *command.App) *cobra.Command {
	var c getAuditCmd
	cmd := &cobra.Command{
		Use:   "audit [FEDERATION]",
		Short: "Who did what, and what became of it",
		Long: "Who did what, and what became of it, the newest first. The administrator sees all,\n" +
			"a user what he did and what was done about his services.\n" +
			"FEDERATION is the uid or the group of one federation.",
		Example: "  oscarfed get audit --limit 20\n" +
			"  oscarfed get audit grayify --by ann",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Federation = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.By, "by", "", "", "SUBJECT", "Only what this subject did.")
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Only about this cluster.")
	f.Text(&c.Request, "request", "", "", "ID", "Only of this request.")
	f.Limit(&c.Limit, "How many at most, up to 1000.")
	f.Text(&c.Before, "before", "", "", "ID", "Only entries older than this one, as -o name lists them.")
	return cmd
}

func (c *getAuditCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	list, err := api.Audit(ctx, client.AuditQuery{
		Before: c.Before, Limit: c.Limit, Federation: c.Federation, By: c.By, ClusterID: c.Cluster, RequestID: c.Request,
	})
	if err != nil {
		return err
	}
	if a.Form == output.FormName { // what --before takes
		ids := output.NewTable("ID")
		for i := range list {
			ids.Row(list[i].ID)
		}
		return a.PrintTable(ids)
	}
	defer a.SayLimited(len(list), c.Limit)
	return a.Print(list, func() *output.Table {
		t := output.NewTable("TIME", "BY", "ACTION", "OUTCOME", "GROUP", "GENERATION", "CLUSTER", "DETAIL").
			Optional("GENERATION", "CLUSTER", "GROUP")
		for i := range list {
			e := &list[i]
			generation := ""
			if e.Generation > 0 {
				generation = strconv.FormatInt(e.Generation, 10)
			}
			t.Row(e.At.UTC().Format(time.RFC3339), e.By, e.Action, e.Outcome, e.GroupID, generation, e.ClusterID, e.Detail)
		}
		return t
	})
}

type auditVerifyCmd struct {
	Files []string
}

// AuditVerify is `oscarfed audit verify`.
func AuditVerify(a *command.App) *cobra.Command {
	var c auditVerifyCmd
	return &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check an exported audit",
		Long: "Check that no line of an exported audit is missing, moved or changed. Ends with 1 when one is.\n" +
			"FILE... are the files of one control plane, the oldest first.",
		Example: "  oscarfed audit verify audit-*.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Files = args[0:]
			return c.Run(cmd.Context(), a)
		},
	}
}

// verified is what the command prints.
type verified struct {
	Lines int    `json:"lines"`
	First int64  `json:"first"`
	Last  int64  `json:"last"`
	Hash  string `json:"hash"`
}

func (c *auditVerifyCmd) Run(_ context.Context, a *command.App) error {
	var v auditlog.Verifier
	for _, name := range c.Files {
		if err := verifyFile(&v, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if v.Lines == 0 {
		return errors.New("there is no line to check")
	}
	out := verified{Lines: v.Lines, First: v.First, Last: v.Last, Hash: v.Hash}
	return a.Print(out, func() *output.Table {
		t := output.NewTable("LINES", "FIRST", "LAST", "HASH")
		t.Row(fmt.Sprint(out.Lines), fmt.Sprint(out.First), fmt.Sprint(out.Last), out.Hash)
		return t
	})
}

func verifyFile(v *auditlog.Verifier, name string) error {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return v.Read(f)
}
