package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type auditVerifyCmd struct {
	Files []string
}

func newAuditVerifyCmd(a *app) *cobra.Command {
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

func (c *auditVerifyCmd) Run(_ context.Context, a *app) error {
	var v auditlog.Verifier
	for _, name := range c.Files {
		if err := verifyFile(&v, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	out := verified{Lines: v.Lines, First: v.First, Last: v.Last, Hash: v.Hash}
	return a.print(out, func() *output.Table {
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
