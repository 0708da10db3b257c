package boot

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/syncer/enroll"
)

// Etcd says which etcd to use.
type Etcd struct {
	Endpoints []string `name:"etcd-endpoints" sep:"," placeholder:"URL" help:"Client URLs of an external etcd, all members."`
	CertFile  string   `name:"etcd-cert-file" placeholder:"FILE" help:"Client certificate for etcd."`
	KeyFile   string   `name:"etcd-key-file" placeholder:"FILE" help:"Its private key."`
	CAFile    string   `name:"etcd-ca-file" placeholder:"FILE" help:"Authorities that etcd's certificates are verified with."`
}

// store is how these settings connect.
func (c Etcd) store(log *slog.Logger) store.Config {
	return store.Config{Endpoints: c.Endpoints, CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile, Logger: log}
}

// Users is what may change the users of an etcd.
type Users struct {
	Authority string   `name:"etcd-authority" placeholder:"DIR" help:"Authority of the users of an external etcd (oscarfed etcd setup makes it): this process signs its own certificate with it, and those of the clusters that join."`
	Advertise []string `name:"etcd-advertise" sep:"," placeholder:"URL" help:"Client URLs by which syncers reach etcd; default the address that the embedded one listens on, or --etcd-endpoints."`
	// CertificateLife is also how long a stolen certificate is of use.
	CertificateLife time.Duration `name:"cluster-certificate-life" default:"24h" help:"How long the certificate is valid that a cluster gets, 1m to 24h; its syncer renews it after two thirds of that."`
}

// minCertificateLife leaves a syncer that asks in time a few tries.
const minCertificateLife = time.Minute

func (c Users) validate(etcd Etcd) error {
	return errors.Join(
		when(c.Authority != "" && len(etcd.Endpoints) == 0, "--etcd-authority is for an external etcd: give --etcd-endpoints"),
		when(c.Authority != "" && etcd.CertFile != "", "give --etcd-authority or --etcd-cert-file, not both: with an authority the certificate is signed here"),
		when(c.CertificateLife < minCertificateLife || c.CertificateLife > clusters.ClientLife, "--cluster-certificate-life must be from 1m to 24h"),
	)
}

// Log says how a daemon logs: JSON on standard error.
type Log struct {
	Level string `name:"log-level" enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: ${enum}."`
}

// ControlPlane is the configuration of oscar-controlplane.
type ControlPlane struct {
	Listen         string   `default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Where the API listens. Beyond loopback it needs TLS files or --insecure-http."`
	TLSCertFile    string   `name:"tls-cert-file" placeholder:"FILE" help:"Certificate of the API."`
	TLSKeyFile     string   `name:"tls-key-file" placeholder:"FILE" help:"Its private key."`
	InsecureHTTP   bool     `name:"insecure-http" help:"Allow plain HTTP beyond loopback: everybody on the way can read credentials."`
	MetricsListen  string   `default:"127.0.0.1:9464" placeholder:"ADDRESS" help:"Where Prometheus metrics are served; empty for nowhere."`
	DefaultCluster string   `placeholder:"ID" help:"The cluster of services that name none."`
	RateLimit      int      `default:"100" help:"Requests per second and caller; 0 for no limit."`
	TrustedProxies []string `sep:"," placeholder:"CIDR" help:"Networks of proxies whose X-Forwarded-For or Forwarded says who is calling."`
	CORSOrigins    []string `name:"cors-origins" sep:"," placeholder:"ORIGIN" help:"Origins of browser pages that may call the API."`

	Etcd       `embed:""`
	Users      `embed:""`
	EtcdListen string        `default:"127.0.0.1:2379" placeholder:"ADDRESS" help:"Where the embedded etcd listens for clients; beyond loopback by TLS, and only for users. Used without --etcd-endpoints."`
	EtcdNames  []string      `name:"etcd-names" sep:"," placeholder:"NAME" help:"Names that the certificate of the embedded etcd is for, besides those in --etcd-advertise: others than syncers reach it by them."`
	EtcdAuth   bool          `help:"Let the embedded etcd ask who is calling on loopback, too: TLS, a client certificate for everybody, and rights for each."`
	EtcdQuota  int64         `default:"4294967296" placeholder:"BYTES" help:"Size limit of the embedded etcd."`
	DataDir    string        `default:"/var/lib/oscarfed" placeholder:"DIR" help:"Data of the embedded etcd, and the identity unless it has a file of its own."`
	Restored   bool          `help:"Say that etcd was restored from a backup: for one start of one instance, when none has its data directory of before."`
	Retention  time.Duration `name:"etcd-retention" default:"30m" help:"History that the embedded etcd keeps; 0 keeps all. Of an external etcd: what is kept when its space is short."`

	Limits `embed:"" prefix:"cluster-"`

	AdminUser         string `default:"oscar" help:"Name of the administrator."`
	AdminPasswordFile string `placeholder:"FILE" required:"" help:"File with the administrator's password."`

	OIDCIssuers   []string `name:"oidc-issuer" sep:"," placeholder:"URL" help:"Issuer whose users are let in by their access tokens, as it stands in the tokens; may be given several times."`
	OIDCAudiences []string `name:"oidc-audience" sep:"," placeholder:"NAME" help:"A token must be for one of these audiences; without any, every audience is accepted, as OSCAR does."`
	OIDCGroups    []string `name:"oidc-group" sep:"," placeholder:"GROUP" help:"Users must be in one of these groups; needed with an issuer, or everybody with an account there would be let in."`
	OIDCClientIDs []string `name:"oidc-client-id" sep:"," placeholder:"[URL=]ID" help:"Public client of an issuer that people log in with (oscarfed login); GET /system/login tells it to everybody. With several issuers URL= says of which."`
	OIDCScopes    []string `name:"oidc-scope" sep:"," placeholder:"SCOPE" help:"Scopes that people log in with; default openid, profile, email, offline_access and those of groups, as far as the issuer has them."`

	IdentityFile string `placeholder:"FILE" help:"The control plane's age key, the same for all instances; default identity.age in --data-dir. Made when it is missing and the embedded etcd is new."`

	PrepareDeadline      time.Duration      `default:"15s" help:"How long votes are waited for."`
	ApplyGrace           time.Duration      `default:"120s" help:"How long an apply may take besides the expected delay."`
	MaxQueueDelay        time.Duration      `default:"15m" help:"Longest write queue of a cluster that a creation is put behind."`
	RefreshTokenMaxAge   time.Duration      `default:"720h" help:"How old a refresh token may be before its owner is told to give another one; 0 never tells."`
	JobsPerFederation    int                `default:"10000" help:"Jobs of one federation that may be in flight; more are refused."`
	EndpointNetworks     []string           `sep:"," placeholder:"CIDR" help:"Networks that members of type endpoint may be in although they are not of the public internet."`
	JobsPerUser          int                `default:"20000" help:"Jobs of one user that may be in flight."`
	JobWeights           map[string]float64 `mapsep:"," placeholder:"SUBJECT=N" help:"Weights of accounts where they share a cluster for jobs and invocations; 1 for the others."`
	FederationJobWeights map[string]float64 `mapsep:"," placeholder:"GROUP_ID=N" help:"Weights of an account's federations where they share a cluster; 1 for the others."`
	RequestsPerUser      int                `default:"500000" help:"Requests with an Idempotency-Key of one user that are kept, each for 24 h; more are refused."`
	BytesPerUser         int64              `default:"0" help:"Bytes that one user may have in etcd; more are refused. 0 is an eighth of etcd's quota, and at least 64 MiB."`
	AuditFile            string             `placeholder:"FILE" help:"Append the audit, each line with the hash of the one before, to this file; oscarfed audit verify checks it."`
	AuditSyslog          string             `placeholder:"URL" help:"Send these lines to a syslog, too: unix:///dev/log, udp://HOST:514 or tcp://HOST:514."`
	DefaultWait          time.Duration      `default:"60s" help:"How long a creation waits for its outcome when the caller does not say."`

	Log        `embed:""`
	Tracing    Tracing `embed:""`
	TraceShare float64 `default:"1" help:"Share of the API's requests that are traced, 0 to 1."`
}

// Validate reports everything that is wrong.
func (c ControlPlane) Validate() error {
	return errors.Join(
		pair("tls-cert-file", c.TLSCertFile, "tls-key-file", c.TLSKeyFile),
		pair("etcd-cert-file", c.CertFile, "etcd-key-file", c.KeyFile),
		c.validate(c.Etcd),
		when(len(c.Endpoints) == 0 && len(c.Advertise) == 0 && everywhere(c.EtcdListen), "--etcd-listen is on every address of this machine: say with --etcd-advertise how syncers reach it"),
		when(len(c.Endpoints) > 0 && c.EtcdAuth, "--etcd-auth is for the embedded etcd; oscarfed etcd setup prepares an external one"),
		when(len(c.Endpoints) > 0 && c.IdentityFile == "", "with an external etcd, give --identity-file: all instances need the same key"),
		when(c.AdminUser == "" || strings.Contains(c.AdminUser, ":"), "--admin-user must not be empty or hold a colon"),
		when(len(c.OIDCIssuers) == 0 && len(c.OIDCAudiences)+len(c.OIDCGroups) > 0, "--oidc-audience and --oidc-group need an --oidc-issuer"),
		when(len(c.OIDCIssuers) > 0 && len(c.OIDCGroups) == 0, "--oidc-issuer needs an --oidc-group: everybody with an account there would be let in"),
		loginProblem(c),
		when(c.RateLimit < 0, "--rate-limit must be 0 or more"),
		when(c.Limits.Keys < 0 || c.Limits.Bytes < 0 || c.Limits.Rate < 0 || c.Limits.ByteRate < 0, "--cluster-keys, --cluster-bytes, --cluster-rate and --cluster-byte-rate must be 0 or more"),
		positive("prepare-deadline", c.PrepareDeadline), positive("apply-grace", c.ApplyGrace),
		when(c.RefreshTokenMaxAge < 0, "--refresh-token-max-age must be 0 or more"),
		networksError("endpoint-networks", c.EndpointNetworks), networksError("trusted-proxies", c.TrustedProxies),
		when(!weights(c.JobWeights) || !weights(c.FederationJobWeights), "--job-weights and --federation-job-weights must be above 0"),
		when(c.JobsPerFederation < 0 || c.JobsPerUser < 0, "--jobs-per-federation and --jobs-per-user must be 0, for the default, or more"),
		when(c.AuditSyslog != "" && c.AuditFile == "", "--audit-syslog needs --audit-file, which keeps how far it has come"),
		when(c.BytesPerUser < 0, "--bytes-per-user must be 0, for the default, or more"),
		when(c.RequestsPerUser < 0, "--requests-per-user must be 0, for the default, or more"),
		c.Tracing.validate(), when(c.TraceShare < 0 || c.TraceShare > 1, "--trace-share must be from 0 to 1"),
		positive("max-queue-delay", c.MaxQueueDelay), positive("default-wait", c.DefaultWait),
	)
}

// Limits of what one cluster may write, where etcd has users.
type Limits struct {
	Keys     int     `default:"100000" help:"Keys that one cluster may have in etcd; who passes a limit is revoked. 0 for no limit."`
	Bytes    int64   `default:"268435456" help:"Bytes that these may hold; 0 for no limit."`
	Rate     float64 `default:"1000" help:"Writes of one cluster per second in the long run; as many at once as in 250 s. 0 for no limit."`
	ByteRate float64 `default:"1048576" help:"Bytes that one cluster may write per second in the long run; as many at once as in 250 s. 0 for no limit."`
}

// Syncer is the configuration of oscar-syncer.
type Syncer struct {
	ClusterID string `required:"" placeholder:"ID" help:"The id that this cluster is registered under."`
	Etcd      `embed:""`
	Joining   `embed:""`

	APIEndpoint string `name:"api-endpoint" placeholder:"URL" help:"The control plane's API, for the stream on which it asks this cluster all that does not go through etcd; default --control-plane. off for no stream."`

	RelayAdmin bool `help:"The control plane's administrator may ask this OSCAR for buckets, volumes, quotas and usage with the rights of its own administrator: this lends him its root."`

	OscarEndpoint     string `required:"" placeholder:"URL" help:"The local OSCAR Manager."`
	OscarUser         string `default:"oscar" help:"Its administrator."`
	OscarPasswordFile string `required:"" placeholder:"FILE" help:"File with the administrator's password."`
	OscarCAFile       string `name:"oscar-ca-file" placeholder:"FILE" help:"Authorities that the OSCAR's certificate is verified with."`

	LocalListen string `placeholder:"ADDRESS" help:"Where the syncer answers its own OSCAR, which asks with what keys a user's jobs read and write the MinIO of the federation's origin. Plain HTTP: keep it to the OSCAR. With --local-url; without both, jobs here use the storage of this cluster."`
	LocalURL    string `name:"local-url" placeholder:"URL" help:"Under which the OSCAR reaches --local-listen, as http://oscar-syncer.oscarfed.svc:8091."`

	IdentityFile     string        `placeholder:"FILE" default:"/var/lib/oscarfed-syncer/identity.age" help:"This cluster's age key; made when it is missing."`
	ClusterUIDFile   string        `name:"cluster-uid-file" placeholder:"FILE" help:"Remembers which registration of the cluster this syncer serves; default cluster-uid beside --identity-file. Made when it is missing."`
	SharedMinIO      bool          `name:"shared-minio" help:"The OSCAR's MinIO is another OSCAR's, too: a mark in it does not say which OSCAR this is, and one that is registered twice is not noticed."`
	AcceptClusterUID string        `name:"accept-cluster-uid" placeholder:"UID" help:"Serve this registration although another one is remembered: the cluster was removed and registered again, and this machine is meant."`
	Resync           time.Duration `default:"60s" help:"Time between two full compares."`
	SessionTTL       time.Duration `name:"session-ttl" default:"30s" help:"How long a syncer that died still counts as alive."`
	LateWindow       time.Duration `default:"300s" help:"How long a create that OSCAR never answered may still take effect."`
	JobPosts         int           `default:"16" help:"Jobs that are posted to OSCAR at the same time, 1 to 256; several owners share them, and an eighth is kept for those that have none. When the syncer is killed, so many may be left of which nobody knows whether they were started."`
	JobStartTimeout  time.Duration `default:"10m" help:"How long the pod of a job may be unable to start (its image cannot be pulled, its volume not mounted) until the job is given back; 0 for ever. It needs Kubernetes."`
	MetricsListen    string        `default:"127.0.0.1:9465" placeholder:"ADDRESS" help:"Where Prometheus metrics are served; empty for nowhere."`

	OIDCIssuers       []string `name:"oidc-issuer" sep:"," placeholder:"URL" help:"Issuer that refresh tokens of users may be exchanged at, as it stands in its tokens; may be given several times."`
	OIDCClientIDs     []string `name:"oidc-client-id" sep:"," placeholder:"[URL=]ID" help:"Client that refresh tokens of an issuer are given to; without it, the one that the user's access token names. With several issuers URL= says of which."`
	OIDCClientSecrets []string `name:"oidc-client-secret-file" sep:"," placeholder:"[URL=]FILE" help:"File with the secret of that client; without it, the client is public."`

	Kubernetes        string `enum:"auto,off" default:"auto" help:"Whether to use the Kubernetes below the OSCAR: ${enum}. auto takes --kubeconfig, else the service account of the own pod, else none."`
	Kubeconfig        string `placeholder:"FILE" help:"How to reach Kubernetes from outside of it."`
	ServicesNamespace string `default:"oscar-svc" placeholder:"NAME" help:"OSCAR's namespace of services."`

	OfferJobs       string        `enum:"auto,off" default:"auto" help:"Whether to offer Jobs that wait here for room to the federation: ${enum}. auto does where there is Kubernetes."`
	RescheduleAfter time.Duration `default:"30s" help:"How long a Job waits before it is offered, where its federation says nothing (federation.rescheduler_threshold)."`

	Log     `embed:""`
	Tracing Tracing `embed:""`
}

// relayOff is the word of --api-endpoint for no stream.
const relayOff = "off"

func (c Syncer) apiProblem() error {
	if c.APIEndpoint == "" || c.APIEndpoint == relayOff {
		return nil
	}
	if err := enroll.CheckURL(c.APIEndpoint); err != nil {
		return fmt.Errorf("--api-endpoint: %w", err)
	}
	return nil
}

// localProblem checks the two flags of the server for the local OSCAR.
func (c Syncer) localProblem() error {
	if c.LocalListen == "" || c.LocalURL == "" {
		return pair("local-listen", c.LocalListen, "local-url", c.LocalURL)
	}
	u, err := url.Parse(c.LocalURL)
	return errors.Join(
		when(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "",
			"--local-url is the address of this syncer as its OSCAR reaches it, as http://oscar-syncer.oscarfed.svc:8091, without a path"),
		when(!hostPort(c.LocalListen), "--local-listen is an address with a port, as :8091"),
	)
}

func hostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}

// kubernetesOff is the word of --kubernetes for none, and offersOff that of --offer-jobs.
const (
	kubernetesOff = "off"
	offersOff     = "off"
)

// maxJobPosts is the highest --job-posts: one of its posts is one connection to OSCAR.
const maxJobPosts = 256

// Validate reports everything that is wrong.
func (c Syncer) Validate() error {
	return errors.Join(
		pair("etcd-cert-file", c.CertFile, "etcd-key-file", c.KeyFile),
		c.Joining.validate(c.Etcd, c.APIEndpoint != "" && c.APIEndpoint != relayOff),
		c.apiProblem(),
		c.localProblem(),
		positive("resync", c.Resync), positive("session-ttl", c.SessionTTL), positive("late-window", c.LateWindow),
		positive("reschedule-after", c.RescheduleAfter),
		when(c.JobStartTimeout < 0, "--job-start-timeout must not be negative"),
		when(c.JobPosts < 1 || c.JobPosts > maxJobPosts, "--job-posts must be from 1 to 256"),
		issuersProblem(c),
		when(c.Kubernetes == kubernetesOff && c.Kubeconfig != "", "--kubernetes=off and --kubeconfig contradict each other"),
		when(c.SessionTTL > 0 && c.SessionTTL < 2*time.Second, "--session-ttl must be at least 2s: etcd renews no shorter leases"),
	)
}

// Dev is the configuration of a whole federation in one process.
type Dev struct {
	Clusters     int           `default:"3" help:"How many simulated clusters, 1 to 26: oscar-cluster-a, -b, ..."`
	Listen       string        `default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Where the API listens."`
	EtcdListen   string        `default:"127.0.0.1:2379" placeholder:"ADDRESS" help:"Where etcd listens for clients."`
	DataDir      string        `placeholder:"DIR" help:"Data; a temporary folder that is removed at the end when none is given."`
	OscarLatency time.Duration `default:"0s" help:"How long each simulated OSCAR takes for a create or delete; a real one takes 6.2s."`
	JobTime      time.Duration `default:"2s" help:"How long a job runs on a simulated OSCAR."`
	Resync       time.Duration `default:"5s" help:"Time between two full compares of a syncer."`
	EtcdAuth     bool          `help:"Let etcd ask who is calling: TLS, a certificate for each syncer, and rights for each."`
	CORSOrigins  []string      `name:"cors-origins" sep:"," placeholder:"ORIGIN" help:"Origins of browser pages that may call the API."`
	OpenID       bool          `name:"openid" help:"Start an OpenID provider with the users alice and bob, too; oscarfed login uses it."`
	OpenIDListen string        `name:"openid-listen" default:"127.0.0.1:8081" placeholder:"ADDRESS" help:"Where that provider listens: on loopback."`
	LogFile      string        `placeholder:"FILE" help:"Where the log goes; default standard error or, when that is a terminal, a new temporary file."`
	Output       string        `enum:"table,json" default:"table" help:"How to say that all is ready: ${enum}."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c Dev) Validate() error {
	return errors.Join(
		when(c.Clusters < 1 || c.Clusters > 26, fmt.Sprintf("--clusters is %d; it must be 1 to 26", c.Clusters)),
		when(c.OscarLatency < 0, "--oscar-latency must be 0 or more"),
		when(c.JobTime < 0, "--job-time must be 0 or more"),
		positive("resync", c.Resync),
	)
}

// everywhere says whether an address is every one of this machine.
func everywhere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && anyAddress(host)
}

func pair(a, av, b, bv string) error {
	return when((av == "") != (bv == ""), fmt.Sprintf("--%s and --%s go together", a, b))
}

func positive(name string, d time.Duration) error {
	return when(d <= 0, fmt.Sprintf("--%s must be more than 0", name))
}

func when(wrong bool, message string) error {
	if !wrong {
		return nil
	}
	return errors.New(message)
}

// maxSecretFile bounds a password file in bytes.
const maxSecretFile = 4096

// readSecret reads a secret from a file, without the line break at its end.
func readSecret(path string) (string, error) {
	buf, err := readLimited(path, maxSecretFile)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(buf), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, nil
}

func networksError(flag string, texts []string) error {
	_, err := prefixes(flag, texts)
	return err
}

// weights says whether all are positive numbers.
func weights(of map[string]float64) bool {
	for _, w := range of {
		if !(w > 0 && w <= math.MaxFloat64) {
			return false
		}
	}
	return true
}
