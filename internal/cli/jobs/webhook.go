package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/outbound"
)

// webhookCmd prints how a MinIO is told to send its events to the control plane. It does
// not do it: that takes MinIO's administrator, whose keys are no business of this program.
type webhookCmd struct {
	Service   string
	Cluster   string
	URL       string
	QueueDir  string
	TokenFile string
	ShowToken bool
}

// Webhook is `oscarfed webhook`.
func Webhook(a *command.App) *cobra.Command {
	var c webhookCmd
	cmd := &cobra.Command{
		Use:   "webhook SERVICE",
		Short: "Print how a MinIO sends its events here",
		Long: "Print how the MinIO of a service's cluster is told to send the events of its input buckets here,\n" +
			"so that every upload is placed by the policy. Changes nothing.",
		Example: "  oscarfed webhook grayify --save-token grayify.token",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	f.Text(&c.URL, "url", "", "", "URL", "The control plane's address as MinIO reaches it; default the one that you call.")
	f.Text(&c.QueueDir, "queue-dir", "", "/var/lib/oscarfed-events", "DIR", "Directory on MinIO's machine that keeps events while the control plane is away. MinIO must be able to write there, and it must outlive its pod.")
	f.Text(&c.TokenFile, "save-token", "", "", "FILE", "Write the service's token into this new file, for MinIO's administrator.")
	f.BoolVarP(&c.ShowToken, "show-token", "", false, "Print the service's token in clear, in place of the name of a file.")
	command.WithoutForms(cmd, output.FormName)
	return cmd
}

// webhook is what is to be told to a MinIO.
type webhook struct {
	ClusterID string          `json:"cluster_id"`
	ID        string          `json:"id"`
	Endpoint  string          `json:"endpoint"`
	QueueDir  string          `json:"queue_dir"`
	Buckets   []webhookBucket `json:"buckets"`
	Notes     []string        `json:"notes"`
	Commands  []string        `json:"commands"`
}

type webhookBucket struct {
	Bucket string `json:"bucket"`
	Prefix string `json:"prefix"`
}

func (c *webhookCmd) Run(ctx context.Context, a *command.App) error {
	if c.ShowToken && c.TokenFile != "" {
		return exit.Usagef("give --show-token or --save-token, not both")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	s, err := api.Service(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	address := cmp.Or(c.URL, a.Connection.Endpoint)
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return exit.Usagef("--url is an http or https URL without credentials, such as https://federation.example.org:8080")
	}
	if s.Token == "" {
		return exit.Errorf(exit.Invalid, "%w", errors.New("you may not see the token of this service; its owner may"))
	}
	w := webhook{ClusterID: s.ClusterID, ID: "oscarfed-" + s.Name, QueueDir: c.QueueDir, Buckets: inputBuckets(s)}
	if len(w.Buckets) == 0 {
		return exit.Errorf(exit.Invalid, "%w", fmt.Errorf("service %q has no input in minio.default: no bucket sends events for it", s.Name))
	}
	query := ""
	if s.ClusterID != "" {
		query = "?" + url.Values{"cluster_id": {s.ClusterID}}.Encode()
	}
	w.Endpoint = strings.TrimSuffix(base.String(), "/") + "/job/" + url.PathEscape(s.Name) + query
	token := `"$(cat TOKEN_FILE)"`
	switch {
	case c.ShowToken:
		token = quoted(s.Token)
	case c.TokenFile != "":
		if err := saveNew(c.TokenFile, s.Token); err != nil {
			return exit.Errorf(exit.Invalid, "%w", err)
		}
		token = `"$(cat ` + quoted(c.TokenFile) + `)"`
	}
	w.Notes, w.Commands = webhookNotes(base, a.Connection.CAFile, c, s), webhookCommands(w, s.Name, token)
	if a.Form != output.FormTable {
		return output.Encode(a.Stdout, a.Form, w)
	}
	for _, note := range w.Notes {
		fmt.Fprintln(a.Stdout, output.Printable("# "+note))
	}
	for _, command := range w.Commands {
		fmt.Fprintln(a.Stdout, output.Printable(command))
	}
	return nil
}

// inputBuckets are where uploads start jobs of a service: inputs in the MinIO of its own
// cluster.
func inputBuckets(s *oscar.Service) []webhookBucket {
	var out []webhookBucket
	for _, in := range s.Input {
		if provider, id := oscar.ProviderRef(in.Provider); provider != oscar.ProviderMinIO || id != oscar.ProviderDefault {
			continue
		}
		bucket, folder, found := strings.Cut(strings.Trim(in.Path, " /"), "/")
		if !found { // a path without a bucket is a folder in that of the service
			bucket, folder = s.Name, bucket
		}
		out = append(out, webhookBucket{Bucket: bucket, Prefix: strings.TrimSuffix(folder, "/") + "/"})
	}
	return out
}

// webhookNotes are what no command does.
func webhookNotes(base *url.URL, ca string, c *webhookCmd, s *oscar.Service) []string {
	notes := []string{
		fmt.Sprintf("For the administrator of the MinIO of cluster %s. ALIAS is what mc calls it (mc alias set).", cmp.Or(s.ClusterID, "the service")),
		fmt.Sprintf("%s must be there, on a disk that outlives MinIO's pod, and MinIO must be able to write to it.", c.QueueDir),
	}
	if c.TokenFile == "" && !c.ShowToken {
		notes = append(notes, "TOKEN_FILE holds the service's token: oscarfed webhook --save-token makes one. It ends with the service, and when it is rotated (oscarfed token rotate, or a visibility that narrows): run this again then.")
	}
	if base.Scheme == "https" {
		which := "the authority that signed the control plane's certificate"
		if ca != "" {
			which += " (here " + ca + ")"
		}
		notes = append(notes, "MinIO must trust "+which+": put it into certs/CAs of MinIO's configuration (trustedCertsSecret of its chart), unless its system does already.")
	} else {
		notes = append(notes, "The token goes in the clear: use https, but on one machine.")
	}
	if outbound.Loopback(base.Hostname()) {
		notes = append(notes, "This address is that of your own machine: --url says how MinIO reaches the control plane.")
	}
	return append(notes, "OSCAR puts its own notification back when it makes the bucket anew: run the commands about events again then.")
}

// webhookCommands are for a shell. Every word that a user chose is quoted.
func webhookCommands(w webhook, service, token string) []string {
	out := []string{
		fmt.Sprintf(`mc admin config set "$ALIAS" %s endpoint=%s auth_token=%s queue_dir=%s queue_limit=100000`,
			quoted("notify_webhook:"+w.ID), quoted(w.Endpoint), token, quoted(w.QueueDir)),
		`mc admin service restart "$ALIAS"`,
	}
	seen := map[string]bool{}
	for _, b := range w.Buckets {
		at := `"$ALIAS"/` + quoted(b.Bucket)
		if !seen[b.Bucket] {
			seen[b.Bucket] = true
			// Which region stands in the name of OSCAR's own target only MinIO knows.
			out = append(out, fmt.Sprintf(`for arn in $(mc event list %s | grep -o %s); do mc event remove %s "$arn"; done`,
				at, quoted("arn:minio:sqs:[^: ]*:"+service+":webhook"), at))
		}
		out = append(out, fmt.Sprintf(`mc event add %s %s --event put --prefix %s`, at, quoted("arn:minio:sqs::"+w.ID+":webhook"), quoted(b.Prefix)))
	}
	for _, b := range w.Buckets {
		if seen[b.Bucket] {
			seen[b.Bucket] = false
			out = append(out, `mc event list "$ALIAS"/`+quoted(b.Bucket)+" # one line for each prefix, with "+w.ID+" alone")
		}
	}
	return out
}

// quoted is one word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// saveNew writes a secret to a file that was not there.
func saveNew(path, secret string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	return errors.Join(err, f.Close())
}
