package clusters

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
	"github.com/oscarfed/oscarfed/internal/outbound"
)

type clusterJoinCmd struct {
	ID            string
	OscarEndpoint string
	SSLVerify     bool
	Label         map[string]string
	AllowedGroup  []string
	ControlPlane  string
	Helm          bool
	Kubeconfig    string
	Kubernetes    string
	ReplaceKey    bool

	// registered says that this command registered the cluster.
	registered bool
}

// Join is `oscarfed cluster join`.
func Join(a *command.App) *cobra.Command {
	var c clusterJoinCmd
	cmd := &cobra.Command{
		Use:   "join CLUSTER [OSCAR-URL]",
		Short: "Print the command that joins a cluster",
		Long: "Make a token for one cluster to join with, and print the command for the other side. With\n" +
			"OSCAR-URL, the address of its OSCAR Manager, the cluster is registered if it is not yet.",
		Example: "  oscarfed cluster join oscar-cluster-a https://oscar-a.example.org\n" +
			"  oscarfed cluster join oscar-cluster-a --helm",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			c.OscarEndpoint = command.Argument(args, 1)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.YesOrNo(&c.SSLVerify, "ssl-verify", "Whether the certificate of that address is checked.")
	f.Labels(&c.Label, "label", "Label of the cluster; may be repeated.")
	f.List(&c.AllowedGroup, "allowed-group", "GROUP", "Group whose members may use the cluster; may be repeated. Everybody when none is given.")
	f.Text(&c.ControlPlane, "control-plane", "", "", "URL", "Address of the API as the cluster reaches it; default the one that is used here.")
	f.BoolVarP(&c.Helm, "helm", "", false, "Print the commands for a Kubernetes cluster: a Secret, and the chart oscar-syncer.")
	f.Text(&c.Kubeconfig, "kubeconfig", "", "", "FILE", "File beside that OSCAR by which its syncer reaches the Kubernetes below it, for a syncer that runs in no pod.")
	f.Choice(&c.Kubernetes, "kubernetes", "auto", "Whether its syncer uses the Kubernetes below it: auto or off.", "auto", "off")
	f.BoolVarP(&c.ReplaceKey, "replace-key", "", false, "The machine that uses the token takes this cluster's place, whatever its key and its Kubernetes, and all that is desired of the cluster is given to it. For a cluster that lost its identity.")
	command.WithoutForms(cmd, output.FormName)
	return cmd
}

// joinOrder is what the other side needs; the JSON and YAML form of the command.
type joinOrder struct {
	v1.JoinToken
	ControlPlane   string `json:"control_plane"`
	ControlPlaneCA string `json:"control_plane_ca,omitempty"`
	Command        string `json:"command"`
}

// withoutKubernetes is said when neither a kubeconfig nor --kubernetes=off was given.
const withoutKubernetes = "outside a pod this syncer uses no Kubernetes, and then heals no half-created service, finds drift by resyncs alone, " +
	"holds no refresh token and offers no jobs: give --kubeconfig, or --kubernetes=off if it is to be so"

func (c *clusterJoinCmd) Run(ctx context.Context, a *command.App) error {
	if err := c.check(); err != nil {
		return err
	}
	order := joinOrder{ControlPlane: cmp.Or(c.ControlPlane, a.Connection.Endpoint)}
	if err := joinable(order.ControlPlane); err != nil {
		return err
	}
	var err error
	if order.ControlPlaneCA, err = inlineCA(a.Connection.CAFile); err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	reg, err := c.register(ctx, api)
	if err != nil {
		return err
	}
	token, err := api.IssueJoin(ctx, c.ID, v1.JoinRequest{ReplaceKey: c.ReplaceKey})
	if err != nil {
		return errors.Join(err, c.unregister(ctx, api))
	}
	order.JoinToken = *token
	order.Command = order.command(reg.Endpoint, c.kubernetesFlags())
	if c.Helm {
		if order.Command, err = order.helm(reg.Endpoint); err != nil {
			return err
		}
	}
	if a.Form != output.FormTable {
		return output.Encode(a.Stdout, a.Form, order)
	}
	a.Sayf("run this beside the OSCAR of %s before %s; the token works once:", c.ID, token.ExpiresAt.Local().Format("15:04:05"))
	if c.Helm {
		a.Sayf("the password of its OSCAR must stand in the Secret %s of that namespace, under the key password", helmPasswordSecret)
	} else if len(c.kubernetesFlags()) == 0 {
		a.Sayf("warning: %s", withoutKubernetes)
	}
	if c.ReplaceKey {
		a.Sayf("whoever uses it takes the place of the cluster as it was, whose own certificate works until it ends, 24 hours at most")
	}
	_, err = fmt.Fprint(a.Stdout, order.Command)
	return err
}

func (c *clusterJoinCmd) check() error {
	switch {
	case c.Helm && c.Kubeconfig != "":
		return exit.Usagef("--helm is for a syncer in a pod, which needs no --kubeconfig")
	case c.Helm && c.Kubernetes != "auto":
		return exit.Usagef("--helm and --kubernetes=off contradict each other; a chart without Kubernetes has rbac.create: false")
	case c.Kubeconfig != "" && c.Kubernetes != "auto":
		return exit.Usagef("--kubeconfig and --kubernetes=off contradict each other")
	}
	return nil
}

// kubernetesFlags are for the syncer; none are needed in a pod.
func (c *clusterJoinCmd) kubernetesFlags() []string {
	switch {
	case c.Kubeconfig != "":
		return []string{"--kubeconfig=" + c.Kubeconfig}
	case c.Kubernetes != "auto":
		return []string{"--kubernetes=" + c.Kubernetes}
	}
	return nil
}

// register makes the cluster known when an address is given and it is not known yet.
func (c *clusterJoinCmd) register(ctx context.Context, api *client.Client) (*v1.Cluster, error) {
	if c.OscarEndpoint != "" {
		reg, err := api.RegisterCluster(ctx, v1.ClusterSpec{
			ClusterID: c.ID, Endpoint: c.OscarEndpoint, SSLVerify: new(c.SSLVerify), Labels: c.Label, AllowedGroups: c.AllowedGroup,
		})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != v1.CodeAlreadyExists {
			c.registered = err == nil
			return reg, err
		}
	}
	reg, err := api.Cluster(ctx, c.ID)
	if err == nil && c.OscarEndpoint != "" && reg.Endpoint != strings.TrimRight(c.OscarEndpoint, "/") {
		return nil, exit.Errorf(exit.Conflict, "cluster %q is registered with the address %s; leave the address out, or change the registration first", c.ID, reg.Endpoint)
	}
	return reg, err
}

// unregister takes back what register has made: a command that was refused leaves nothing. Where
// the outcome is not known the registration stays, as the token may have been given out.
func (c *clusterJoinCmd) unregister(ctx context.Context, api *client.Client) error {
	if !c.registered {
		return nil
	}
	if _, err := api.RemoveCluster(ctx, c.ID, client.RemoveClusterOptions{}); err != nil {
		return fmt.Errorf("the cluster stays registered; oscarfed cluster remove %s ends that: %w", c.ID, err)
	}
	return nil
}

// joinable refuses an address that no syncer joins at.
func joinable(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return exit.Usagef("--control-plane must be a URL such as https://federation.example.org:8080")
	}
	if outbound.Private(u) {
		return nil
	}
	return exit.Usagef("no syncer sends its token to %s, which is not https; give the API's address with --control-plane", endpoint)
}

// maxInlineCA bounds what is put into the command, in bytes before base64.
const maxInlineCA = 8 << 10

// inlineCA is what the API's certificate is verified with here, for a command line;
// empty for the authorities of the system.
func inlineCA(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := settings.ReadLimited(file, settings.MaxConfig)
	if err != nil {
		return "", exit.Usagef("certificates: %w", err)
	}
	var der []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			der = append(der, block.Bytes...)
		}
	}
	if len(der) == 0 || len(der) > maxInlineCA {
		return "", exit.Usagef("%s has %d bytes of certificates; for a command line there must be some, and at most %d: name the API's own authority with --ca-file", file, len(der), maxInlineCA)
	}
	return base64.StdEncoding.EncodeToString(der), nil
}

// command is for a POSIX shell. The token is in its input: all users of the machine can see the
// arguments of a process.
func (o joinOrder) command(oscar string, more []string) string {
	args := []string{"oscar-syncer", "--cluster-id=" + o.ClusterID, "--control-plane=" + o.ControlPlane}
	if o.ControlPlaneCA != "" {
		args = append(args, "--control-plane-ca="+o.ControlPlaneCA)
	}
	args = append(args, "--join-token-file=-", "--oscar-endpoint="+oscar, "--oscar-password-file=oscar-password")
	args = append(args, more...)
	for i, arg := range args {
		args[i] = shellWord(arg)
	}
	return strings.Join(args, " \\\n  ") + " <<'TOKEN'\n" + o.Token + "\nTOKEN\n"
}

// Names that the chart oscar-syncer is installed with.
const (
	helmNamespace      = "oscarfed"
	helmRelease        = "oscar-syncer"
	helmChart          = "deploy/helm/oscar-syncer"
	helmTokenSecret    = "oscar-syncer-join"
	helmPasswordSecret = "oscar-password"
	// helmTokenAnnotation of the syncer's pod says which join token it was started for, by its end.
	helmTokenAnnotation = "oscarfed.io/join-token-expires"
)

// helm is for a POSIX shell whose kubectl and helm speak to the cluster's Kubernetes. It can be run
// again: a Secret that is there gets the new token, and the annotation restarts a running syncer, which
// reads it at once. A release that is there keeps the other values that it was given, so all that these
// depend on is said, too.
func (o joinOrder) helm(oscar string) (string, error) {
	controlPlane := map[string]any{
		"url": o.ControlPlane, "ca": o.ControlPlaneCA, "joinTokenSecret": map[string]string{"name": helmTokenSecret, "key": "token"},
	}
	if o.ControlPlaneCA != "" {
		controlPlane["caConfigMap"] = map[string]string{"configMap": ""}
	}
	values, err := yaml.Marshal(map[string]any{
		"clusterID": o.ClusterID, "controlPlane": controlPlane,
		"oscar":          map[string]any{"endpoint": oscar, "passwordSecret": map[string]string{"name": helmPasswordSecret, "key": "password"}},
		"podAnnotations": map[string]string{helmTokenAnnotation: o.ExpiresAt.UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return "", err
	}
	return "kubectl --namespace=" + helmNamespace + " create secret generic " + helmTokenSecret + " --from-file=token=/dev/stdin \\\n" +
		"  --dry-run=client --output=yaml <<'TOKEN' | kubectl apply --filename=- &&\n" +
		o.Token + "\nTOKEN\n" +
		"helm upgrade --install " + helmRelease + " " + helmChart + " --namespace=" + helmNamespace +
		" --reset-then-reuse-values --values=- <<'VALUES'\n" +
		string(values) + "VALUES\n", nil
}

// shellWord quotes what a shell would not take as it is.
func shellWord(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:=+,@%", r)
	}) < 0
	if plain && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
