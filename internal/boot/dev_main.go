package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// DevMain is the CLI's command dev. It answers the exit status.
func DevMain(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	cfg, err := Load[Dev]("oscarfed dev", "A whole federation in one process, over simulated OSCARs.", args, stdout)
	logs, name := stderr, ""
	if err == nil {
		var file *os.File
		if file, err = devLog(cfg.LogFile, stderr); file != nil {
			defer file.Close() //nolint:errcheck // the log's last line has been written
			logs, name = file, file.Name()
		}
	}
	var stopped error
	status := daemon(ctx, "oscarfed dev", cfg.Log, err, logs, func(ctx context.Context, log *slog.Logger) error {
		stopped = RunDev(ctx, cfg, log, func(r DevReady) error {
			if cfg.Output == "json" {
				return json.NewEncoder(stdout).Encode(r)
			}
			return printReady(stdout, r, name)
		})
		return stopped
	})
	if status != exitDone && name != "" {
		fmt.Fprintf(stderr, "oscarfed dev: %v\n  what came before is in its log, %s\n", stopped, name)
	}
	return status
}

// devLog is the file that the log goes to; none when it goes to standard error, which somebody has
// directed elsewhere.
func devLog(path string, stderr io.Writer) (*os.File, error) {
	if path != "" {
		return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	f, ok := stderr.(*os.File)
	if !ok {
		return nil, nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, nil //nolint:nilerr // what cannot be looked at is no terminal
	}
	return os.CreateTemp("", "oscarfed-dev-*.log")
}

// writeConfig writes a configuration file for the CLI, and the administrator's password beside it.
func writeConfig(dir string, r DevReady) (path string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	const password = "admin-password"
	if err := os.WriteFile(filepath.Join(dir, password), []byte(r.Password), 0o600); err != nil {
		return "", err
	}
	data, err := yaml.Marshal(map[string]any{
		"current_context": "dev",
		"contexts":        map[string]any{"dev": map[string]string{"endpoint": r.API, "user": r.User, "password_file": password}},
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "cli.yaml")
	return path, os.WriteFile(path, data, 0o600)
}

// printReady says where everything is, and what to type next.
func printReady(w io.Writer, r DevReady, log string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tADDRESS\tUSER\tPASSWORD")
	fmt.Fprintf(t, "API\t%s\t%s\t%s\n", r.API, r.User, r.Password)
	for _, c := range r.Clusters {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.ClusterID, c.Endpoint, c.User, c.Password)
	}
	for _, u := range r.Users {
		fmt.Fprintf(t, "OpenID\t%s\t%s\t%s\n", r.Issuer, u.Subject, u.Password)
	}
	fmt.Fprintf(t, "etcd\t%s\n", r.Etcd)
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nPage:  %s/ui\n", r.API)
	fmt.Fprintf(&b, "Next:  oscarfed --config %s get clusters\n", r.Config)
	if len(r.Users) > 0 {
		fmt.Fprintf(&b, "       oscarfed login --endpoint %s\n", r.API)
	}
	if log != "" {
		fmt.Fprintf(&b, "Log:   %s\n", log)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
