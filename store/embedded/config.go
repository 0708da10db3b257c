package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store/internal/connection"
	"github.com/oscarfed/oscarfed/store/internal/etcdlog"
)

// Config of one member.
type Config struct {
	// Dir holds the data; it is made when absent, readable by its owner alone.
	Dir string
	// ListenClient is the address that clients connect to; default
	// 127.0.0.1:2379. Port 0 takes a free one.
	ListenClient string
	// Listener is what clients connect to in place of ListenClient: a network inside a test. HTTP is
	// not served then.
	Listener net.Listener
	// CertFile and KeyFile make clients connect by TLS. With CAFile they must
	// show a certificate signed by it; all three go together.
	CertFile, KeyFile, CAFile string
	// Guarded is for a server whose clients are users of etcd: as long as etcd's authentication is
	// off, only root is let in. A connection ends when the rights of its user change, within two
	// seconds, or when its certificate ends. Users that are not among Trusted are limited by
	// package guard. It needs the certificates.
	Guarded bool
	// Trusted are users without limits; root is one of them.
	Trusted []string
	// OnLease, when set, is told of each request for a lease of a guarded server.
	OnLease func(user string, granted bool)
	// OnRefusal, when set, is told of each request that passes a limit, and of which.
	OnRefusal func(user, limit string)
	// LeaseKey marks the leases of each user of a guarded server, so that it is known
	// after a restart whose a lease is; default a random one.
	LeaseKey []byte
	// AdvertiseClient are the URLs that others reach this member by; default the
	// address that it listens on.
	AdvertiseClient []string

	// Name, ListenPeer and InitialCluster are for a member of a cluster of
	// several: its name, the URL that it listens on for the others, and
	// name=URL,... of all members. Members show each other the same certificates
	// as to clients. Without these the member is alone and has no peer listener.
	Name, ListenPeer, InitialCluster string
	// AdvertisePeer is the URL that the others reach this member by, as
	// InitialCluster has it; default ListenPeer.
	AdvertisePeer string

	// Quota of the database in bytes; default 4 GiB. When it is used up, writes
	// are refused until space is made.
	Quota int64
	// unlimited is without a quota.
	unlimited bool
	// Retention is for how long history is kept at least; up to twice as much is
	// there at times. 0 keeps everything.
	Retention time.Duration
	// Fast shortens the election to 100 ms, for tests and short-lived servers.
	Fast bool
	// NoFsync loses data when the machine crashes: for tests.
	NoFsync bool

	// Logger gets what etcd warns of; default slog.Default().
	Logger *slog.Logger
}

// A member that is alone speaks to no peer. It still needs a peer URL, which no process listens
// on.
const (
	aloneName = "oscarfed"
	alonePeer = "http://localhost:2380"
)

// Settings of the server that are not etcd's defaults.
const (
	defaultListen = "127.0.0.1:2379"
	defaultQuota  = 4 << 30
	// The raft log is kept in memory for snapshotCount + catchUpEntries entries,
	// and one entry may have a megabyte: etcd's 10000 + 5000 could cost gigabytes.
	snapshotCount  = 2000
	catchUpEntries = 500
	// progressInterval is how often a quiet watch gets a response from the server unasked, if it wants
	// one: sooner than a syncer would ask.
	progressInterval = 12 * time.Second
	// defragThreshold in MiB: that much free space is given back at start.
	defragThreshold = 200
	featureGates    = "InitialCorruptCheck=true,CompactHashCheck=true,StopGRPCServiceOnDefrag=true"
)

func (c Config) withDefaults() Config {
	if c.ListenClient == "" {
		c.ListenClient = defaultListen
	}
	if c.Quota == 0 {
		c.Quota = defaultQuota
	}
	if c.Name == "" {
		c.Name = aloneName
	}
	if c.AdvertisePeer == "" {
		c.AdvertisePeer = c.ListenPeer
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("etcd needs a data directory"))
	}
	if host, _, err := net.SplitHostPort(c.ListenClient); c.Listener != nil {
		// It is no address of this machine.
	} else if err != nil {
		problems = append(problems, fmt.Errorf("etcd listen address %q is not host:port: %w", c.ListenClient, err))
	} else if !loopback(host) && !c.secure() {
		problems = append(problems, fmt.Errorf("etcd on %s would be open to the network: give it a certificate, key and CA, or listen on 127.0.0.1", c.ListenClient))
	}
	if given := count(c.CertFile, c.KeyFile, c.CAFile); given != 0 && given != 3 {
		problems = append(problems, errors.New("etcd's certificate, key and CA must be given together"))
	}
	if c.Guarded && !c.secure() {
		problems = append(problems, errors.New("an etcd whose clients are users needs a certificate, key and CA"))
	}
	for _, advertised := range c.AdvertiseClient {
		if u, err := url.Parse(advertised); err != nil || u.Host == "" || (u.Scheme == "https") != c.secure() || u.Scheme != "http" && u.Scheme != "https" {
			problems = append(problems, fmt.Errorf("etcd's advertised address %q is not a URL like https://etcd.example.org:2379", advertised))
		}
	}
	if given := count(c.ListenPeer, c.InitialCluster); given == 1 {
		problems = append(problems, errors.New("etcd's peer URL and initial cluster must be given together"))
	}
	if u, err := url.Parse(c.ListenPeer); err != nil {
		problems = append(problems, fmt.Errorf("etcd peer URL: %w", err))
	} else if c.ListenPeer != "" && !loopback(u.Hostname()) && (u.Scheme != "https" || !c.secure()) {
		problems = append(problems, fmt.Errorf("etcd peers on %s would be open to the network: use https:// with a certificate, key and CA", c.ListenPeer))
	}
	if c.Quota < 0 || c.Retention < 0 {
		problems = append(problems, errors.New("etcd's quota and retention cannot be negative"))
	}
	return errors.Join(problems...)
}

func count(values ...string) (n int) {
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c Config) secure() bool { return c.CertFile != "" }

// tlsInfo reads the certificate anew for each connection, and the CA once.
func (c Config) tlsInfo() transport.TLSInfo {
	return transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile, ClientCertAuth: true}
}

// harmless are warnings of etcd that every start of a new member gives, each with the reason why
// no operator has to act.
func harmless(message string) bool {
	switch message {
	// Accounts are told by client certificates; there are no tokens.
	case "simple token is not cryptographically signed",
		// A member's first snapshot of the raft log writes what is missed here.
		"Failed to detect schema version",
		"failed to update storage version",
		// Metrics are on a socket in a directory that only this user can enter.
		"scheme is http or unix while key and cert files are present; ignoring key and cert files",
		"scheme is http or unix while --client-cert-auth is enabled; ignoring client cert auth for this URL",
		// The client is told that its request was refused; each line in the log would be one that
		// any client with a certificate can write.
		"failed to apply request":
		return true
	}
	return false
}

// embed translates to etcd's own configuration. HTTP, for metrics and health, is
// served on a socket: with TLS, one port for both would carry gRPC over net/http,
// which starves watches under load.
func (c Config) embed(httpSocket string, quiet func(string) bool, options ...grpc.ServerOption) (*embed.Config, error) {
	out := embed.NewConfig()
	out.Dir = c.Dir
	out.Name = c.Name
	out.QuotaBackendBytes = c.Quota
	if c.unlimited {
		out.QuotaBackendBytes = -1
	}
	out.UnsafeNoFsync = c.NoFsync
	out.SnapshotCount = snapshotCount
	out.SnapshotCatchUpEntries = catchUpEntries
	out.AutoCompactionMode = embed.CompactorModePeriodic
	out.AutoCompactionRetention = c.Retention.String()
	out.WatchProgressNotifyInterval = progressInterval
	out.BootstrapDefragThresholdMegabytes = defragThreshold
	out.EnableGRPCGateway = false
	out.EnablePprof = false
	if c.Fast {
		out.TickMs, out.ElectionMs = 10, 100
	}
	if c.Listener != nil { // an election takes as long as by default, in fewer ticks
		out.TickMs, out.ElectionMs = 500, 1000
	}

	out.LogLevel = zapcore.WarnLevel.String()
	out.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdlog.New(c.Logger.With("component", "etcd"), zapcore.WarnLevel, quiet))
	out.GRPCAdditionalServerOptions = append(connection.Server(), options...)
	gates, ok := out.ServerFeatureGate.(interface{ Set(string) error })
	if !ok {
		return nil, errors.New("this etcd release has no settable feature gates")
	}
	if err := gates.Set(featureGates); err != nil {
		return nil, fmt.Errorf("etcd feature gates: %w", err)
	}

	if err := c.listenClients(out, httpSocket); err != nil {
		return nil, err
	}
	if err := c.joinPeers(out); err != nil {
		return nil, err
	}
	return out, nil
}

// listenClients says where clients reach the member, and with which certificates.
func (c Config) listenClients(out *embed.Config, httpSocket string) error {
	client := url.URL{Scheme: "http", Host: c.ListenClient}
	if c.secure() {
		client.Scheme = "https"
		out.ClientTLSInfo = c.tlsInfo()
		out.PeerTLSInfo = out.ClientTLSInfo
	}
	out.ListenClientUrls = []url.URL{client}
	out.AdvertiseClientUrls = []url.URL{client}
	if len(c.AdvertiseClient) > 0 {
		out.AdvertiseClientUrls = nil
		for _, advertised := range c.AdvertiseClient {
			u, err := url.Parse(advertised)
			if err != nil {
				return fmt.Errorf("etcd advertised URL: %w", err)
			}
			out.AdvertiseClientUrls = append(out.AdvertiseClientUrls, *u)
		}
	}
	out.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Path: httpSocket}}
	return nil
}

// joinPeers says which members the cluster has: this one alone, without a listener for others,
// or those of InitialCluster.
func (c Config) joinPeers(out *embed.Config) error {
	if c.InitialCluster == "" {
		self, err := url.Parse(alonePeer)
		if err != nil {
			return fmt.Errorf("etcd peer URL: %w", err)
		}
		out.ListenPeerUrls = nil
		out.AdvertisePeerUrls = []url.URL{*self}
		out.InitialCluster = c.Name + "=" + self.String()
		return nil
	}
	peer, err := url.Parse(c.ListenPeer)
	if err != nil {
		return fmt.Errorf("etcd peer URL: %w", err)
	}
	advertised, err := url.Parse(c.AdvertisePeer)
	if err != nil {
		return fmt.Errorf("etcd advertised peer URL: %w", err)
	}
	out.ListenPeerUrls = []url.URL{*peer}
	out.AdvertisePeerUrls = []url.URL{*advertised}
	out.InitialCluster = c.InitialCluster
	return nil
}
