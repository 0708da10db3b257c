package boot

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, args ...string) (ControlPlane, error) {
	t.Helper()
	return Load[ControlPlane]("oscar-controlplane", "", append([]string{"--admin-password-file=x"}, args...), io.Discard)
}

func TestFlagOverEnvironmentOverFileOverDefault(t *testing.T) {
	file := write(t, "c.yaml", "listen: 127.0.0.1:3\nrate_limit: 3\nprepare_deadline: 3s\ncors_origins: [\"https://a\", \"https://b\"]\ninsecure_http: true\n")
	t.Setenv("OSCARFED_LISTEN", "127.0.0.1:2")
	t.Setenv("OSCARFED_RATE_LIMIT", "2")
	cfg, err := load(t, "--config", file, "--listen=127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:1" {
		t.Errorf("a flag is above everything: %s", cfg.Listen)
	}
	if cfg.RateLimit != 2 {
		t.Errorf("the environment is above the file: %d", cfg.RateLimit)
	}
	if cfg.PrepareDeadline != 3*time.Second || !cfg.InsecureHTTP || len(cfg.CORSOrigins) != 2 {
		t.Errorf("the file is above the defaults: %+v", cfg)
	}
	if cfg.ApplyGrace != 2*time.Minute {
		t.Errorf("default: %s", cfg.ApplyGrace)
	}
}

// audit_file: with nothing behind it exported the audit to a file called <nil>.
func TestAnEmptySettingInTheFileIsNotSet(t *testing.T) {
	file := write(t, "c.yaml", "audit_file:\nlisten:\nprepare_deadline: ~\noidc_issuer: [null]\ncors_origins: [null, \"https://a\"]\noidc_group: []\n")
	cfg, err := load(t, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.AuditFile != "" || cfg.Listen != "127.0.0.1:8080" || cfg.PrepareDeadline == 0 || len(cfg.OIDCIssuers)+len(cfg.OIDCGroups) != 0 || !slices.Equal(cfg.CORSOrigins, []string{"https://a"}) {
		t.Errorf("%q, %q, %s, %q, %q, %q", cfg.AuditFile, cfg.Listen, cfg.PrepareDeadline, cfg.OIDCIssuers, cfg.OIDCGroups, cfg.CORSOrigins)
	}
	for _, text := range []string{"audit_file: {a: b}\n", "cors_origins: [[https://a]]\n"} {
		if _, err := load(t, "--config", write(t, "c.yaml", text)); err == nil || !strings.Contains(err.Error(), "neither a text nor a number") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The users of a group like CN=oscar,OU=eu were not let in: an item of a list was split at its commas.
func TestAnItemOfAListInTheFileMayHaveCommas(t *testing.T) {
	file := write(t, "c.yaml", "oidc_issuer: https://login.example.org\noidc_group: ['CN=oscar,OU=eu', other]\ncors_origins: https://a,https://b\n")
	cfg, err := load(t, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.OIDCGroups, []string{"CN=oscar,OU=eu", "other"}) || !slices.Equal(cfg.CORSOrigins, []string{"https://a", "https://b"}) {
		t.Errorf("%q, %q", cfg.OIDCGroups, cfg.CORSOrigins)
	}
}

// OSCARFED_VERSION=v1.2.3 oscarfed backup f printed a version, ended with 0 and made no backup.
func TestTheEnvironmentMakesNoCommandDoSomethingElse(t *testing.T) {
	t.Setenv("OSCARFED_VERSION", "true")
	t.Setenv("OSCARFED_TIMEOUT", "1ns")
	t.Setenv("OSCARFED_NO_BUMP", "true")
	t.Setenv("OSCARFED_DRY_RUN", "true")
	backup, err := Load[Backup]("oscarfed backup", "", []string{"f"}, io.Discard)
	if err != nil || filepath.Base(backup.File) != "f" || backup.Timeout != 10*time.Minute {
		t.Errorf("a backup: %+v, %v", backup, err)
	}
	restore, err := Load[Restore]("oscarfed restore", "", []string{write(t, "f", "")}, io.Discard)
	if err != nil || restore.NoBump {
		t.Errorf("a restore: %+v, %v", restore, err)
	}
	setup, err := Load[EtcdSetup]("oscarfed etcd setup", "", []string{"--ca-out=d", "--etcd-endpoints=https://e"}, io.Discard)
	if err != nil || setup.DryRun {
		t.Errorf("a setup: %+v, %v", setup, err)
	}
}

func TestALargeNumberInTheFileWasNoNumber(t *testing.T) {
	cfg, err := load(t, "--config", write(t, "c.yaml", "etcd_quota: 4294967297\nrate_limit: 100\n"))
	if err != nil || cfg.EtcdQuota != 4294967297 || cfg.RateLimit != 100 {
		t.Errorf("quota %d, rate limit %d, error %v", cfg.EtcdQuota, cfg.RateLimit, err)
	}
}

func TestRequiredSettingsMayStandInTheFile(t *testing.T) {
	file := write(t, "c.yaml", "cluster_id: a\netcd_endpoints: [http://127.0.0.1:1]\noscar_endpoint: http://127.0.0.1:2\noscar_password_file: /p\n")
	t.Setenv("OSCARFED_CONFIG", file)
	cfg, err := Load[Syncer]("oscar-syncer", "", nil, io.Discard)
	if err != nil || cfg.ClusterID != "a" || len(cfg.Endpoints) != 1 {
		t.Errorf("%+v %v", cfg, err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := load(t, "--tls-cert-file=c", "--rate-limit=-1", "--prepare-deadline=0s", "--etcd-endpoints=http://127.0.0.1:1")
	if !errors.Is(err, ErrUsage) {
		t.Fatal(err)
	}
	for _, part := range []string{"tls-key-file", "rate-limit", "prepare-deadline", "identity-file"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not told: %v", part, err)
		}
	}
}

func TestUnknownSettingsAreTold(t *testing.T) {
	for name, args := range map[string][]string{
		"file":  {"--config", write(t, "c.yaml", "lisen: 127.0.0.1:3\n")},
		"twice": {"--config", write(t, "c.yaml", "listen: a\nlisten: b\n")},
		"flag":  {"--lisen=127.0.0.1:3"},
		"huge":  {"--config", write(t, "c.yaml", "listen: "+strings.Repeat("x", maxConfigFile)+"\n")},
		"none":  {"--config", "/does/not/exist"},
	} {
		if _, err := load(t, args...); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	for _, flag := range []string{"--help", "--version"} {
		var out bytes.Buffer
		if code := SyncerMain(t.Context(), []string{flag}, nil, &out, io.Discard); code != exitDone || out.Len() == 0 {
			t.Errorf("%s: status %d, %q", flag, code, out.String())
		}
	}
}

func TestASecretIsReadFromItsFile(t *testing.T) {
	if got, err := readSecret(write(t, "p", "word\n")); err != nil || got != "word" {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "\n", strings.Repeat("x", maxSecretFile+1)} {
		if got, err := readSecret(write(t, "p", bad)); err == nil {
			t.Errorf("%d bytes are taken as the secret %q", len(bad), got)
		}
	}
}

func TestPlainHTTPBeyondLoopbackIsRefused(t *testing.T) {
	cfg := ControlPlane{Listen: "0.0.0.0:0"}
	if l, _, err := listen(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it listens on", l.Addr())
	}
	cfg.InsecureHTTP = true
	l, _, err := listen(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestUsersNeedAGroup(t *testing.T) {
	cfg := ControlPlane{
		AdminUser: "oscar", Users: Users{CertificateLife: time.Hour},
		PrepareDeadline: 1, ApplyGrace: 1, MaxQueueDelay: 1, DefaultWait: 1,
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	cfg.OIDCIssuers = []string{"https://login.example.org"}
	if err := cfg.Validate(); err == nil {
		t.Error("everybody with an account at the issuer is let in")
	}
	cfg.OIDCGroups = []string{"physics"}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.OIDCIssuers = nil
	if err := cfg.Validate(); err == nil {
		t.Error("a group without an issuer is accepted")
	}
}

// TestTokensOfEveryAudienceAreARiskThatIsTold at each start, unless audiences are given.
func TestTokensOfEveryAudienceAreARiskThatIsTold(t *testing.T) {
	for _, audiences := range [][]string{nil, {"oscar"}} {
		var out strings.Builder
		cfg := ControlPlane{AdminUser: "oscar", OIDCIssuers: []string{"https://login.example.org"}, OIDCGroups: []string{"physics"}, OIDCAudiences: audiences}
		if _, _, err := authenticator(cfg, "secret", nil, time.Now, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(out.String(), "--oidc-audience"); told != (audiences == nil) {
			t.Errorf("with audiences %v: %q", audiences, out.String())
		}
	}
}

// The client that people log in with belongs to an issuer: with several of them, the flag says to which.
func TestLoginIssuers(t *testing.T) {
	one, two := "https://one.example.org", "https://two.example.org/realms/eu"
	cfg := ControlPlane{OIDCIssuers: []string{one, two}, OIDCClientIDs: []string{two + "=cli"}, OIDCScopes: []string{"openid", "groups"}}
	got, err := loginIssuers(cfg)
	if err != nil || len(got) != 2 || got[0].ClientID != "" || got[1].Issuer != two || got[1].ClientID != "cli" || len(got[1].Scopes) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	cfg.OIDCClientIDs = []string{"cli"}
	if err := loginProblem(cfg); err == nil || !strings.Contains(err.Error(), "URL=") {
		t.Errorf("a client of no issuer: %v", err)
	}
	if err := loginProblem(ControlPlane{OIDCScopes: []string{"openid"}}); err == nil {
		t.Error("scopes without an issuer are accepted")
	}
}

// Whoever has exported OSCARFED_CONFIG, as the quickstart does, and starts oscarfed dev again.
func TestTheFileOfTheCommandsIsToldFromThatOfADaemon(t *testing.T) {
	t.Setenv("OSCARFED_CONFIG", write(t, "cli.yaml", "current_context: dev\ncontexts: {dev: {endpoint: http://127.0.0.1:8080}}\n"))
	_, err := Load[Dev]("oscarfed dev", "", nil, io.Discard)
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "unset OSCARFED_CONFIG") || strings.Contains(err.Error(), "is not a setting") {
		t.Errorf("contexts are settings: %v", err)
	}
}
