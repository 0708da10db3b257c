package embedded

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store/internal/etcdlog"
)

// member is an etcd server that runs, with what serves its clients.
type member struct {
	server *etcdserver.EtcdServer
	// address is where clients connect to.
	address string
	// failed carries why it ended by itself.
	failed <-chan error
	// stop ends the serving of clients, and the server.
	stop func()
	// term is the newest one that StepDown has made up.
	term atomic.Uint64
}

// StepDown leaves the member without a leader, as when others hold an election whose end it is
// not told. A member that is alone elects itself again one or two election timeouts later.
func (m *member) StepDown(ctx context.Context) error {
	term := max(m.term.Load(), m.server.Term()) + 1
	m.term.Store(term)
	self := uint64(m.server.MemberID())
	return m.server.Process(ctx, &raftpb.Message{
		Type: raftpb.MsgVote.Enum(), From: new(self + 1), To: &self, Term: &term,
		// Without this word a member that leads does not listen to a candidate. The candidate's log is
		// empty, so it gets no vote.
		Context: []byte("CampaignTransfer"),
	})
}

// start starts a member as etcd itself does, unless it has a listener of its own.
func (c Config) start(conf *embed.Config, quiet func(string) bool, options []grpc.ServerOption) (*member, error) {
	if c.Listener != nil {
		return c.startOn(conf, quiet, options)
	}
	etcd, err := embed.StartEtcd(conf)
	if err != nil {
		return nil, err
	}
	m := &member{server: etcd.Server, failed: etcd.Err(), stop: etcd.Close}
	for _, l := range etcd.Clients {
		if l.Addr().Network() == "tcp" {
			m.address = l.Addr().String()
		}
	}
	return m, nil
}

// startOn starts a member that is alone and listens to Config.Listener only. etcd's own package
// for embedding opens sockets; this does what that does besides.
func (c Config) startOn(conf *embed.Config, quiet func(string) bool, options []grpc.ServerOption) (*member, error) {
	log := etcdlog.New(c.Logger.With("component", "etcd"), zapcore.WarnLevel, quiet)
	peers, err := types.NewURLsMap(conf.InitialCluster)
	if err != nil {
		return nil, err
	}
	server, err := etcdserver.NewServer(config.ServerConfig{
		Name: conf.Name, DataDir: conf.Dir, ClientURLs: conf.AdvertiseClientUrls, PeerURLs: conf.AdvertisePeerUrls,
		InitialPeerURLsMap: peers, InitialClusterToken: conf.InitialClusterToken, NewCluster: true, StrictReconfigCheck: conf.StrictReconfigCheck,
		SnapshotCount: conf.SnapshotCount, SnapshotCatchUpEntries: conf.SnapshotCatchUpEntries, MaxSnapFiles: conf.MaxSnapFiles, MaxWALFiles: conf.MaxWalFiles,
		TickMs: conf.TickMs, ElectionTicks: conf.ElectionTicks(), InitialElectionTickAdvance: conf.InitialElectionTickAdvance, PreVote: conf.PreVote,
		AutoCompactionMode: conf.AutoCompactionMode, AutoCompactionRetention: c.Retention,
		CompactionBatchLimit: conf.CompactionBatchLimit, CompactionSleepInterval: conf.CompactionSleepInterval, CompactHashCheckTime: conf.CompactHashCheckTime,
		QuotaBackendBytes: conf.QuotaBackendBytes, BackendBatchInterval: conf.BackendBatchInterval, BackendBatchLimit: conf.BackendBatchLimit, UnsafeNoFsync: conf.UnsafeNoFsync,
		BootstrapDefragThresholdMegabytes: conf.BootstrapDefragThresholdMegabytes,
		MaxTxnOps:                         conf.MaxTxnOps, MaxRequestBytes: conf.MaxRequestBytes, MaxConcurrentStreams: conf.MaxConcurrentStreams,
		WatchProgressNotifyInterval: conf.WatchProgressNotifyInterval, WarningApplyDuration: conf.WarningApplyDuration, WarningUnaryRequestDuration: conf.WarningUnaryRequestDuration,
		ClientCertAuthEnabled: conf.ClientTLSInfo.ClientCertAuth, AuthToken: conf.AuthToken, BcryptCost: conf.BcryptCost, TokenTTL: conf.AuthTokenTTL,
		DowngradeCheckTime: conf.DowngradeCheckTime, V2Deprecation: conf.V2DeprecationEffective(), ServerFeatureGate: conf.ServerFeatureGate, Metrics: conf.Metrics, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	server.Start()
	clients, err := c.serve(server, options)
	if err != nil {
		server.HardStop()
		return nil, err
	}
	failed := make(chan error, 1)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := clients.Serve(c.Listener); err != nil {
			failed <- err
		}
	}()
	return &member{server: server, address: c.Listener.Addr().String(), failed: failed, stop: func() {
		endClients(clients, server)
		<-served
		server.Stop()
	}}, nil
}

// serve makes what serves the clients.
func (c Config) serve(server *etcdserver.EtcdServer, options []grpc.ServerOption) (*grpc.Server, error) {
	if !c.secure() {
		return v3rpc.Server(server, nil, nil, options...), nil
	}
	info := c.tlsInfo()
	conf, err := info.ServerConfig()
	if err != nil {
		return nil, fmt.Errorf("etcd's certificates: %w", err)
	}
	return v3rpc.Server(server, conf, nil, options...), nil
}

// endClients answers the requests that are under way, and ends what does not end by then.
func endClients(clients *grpc.Server, server *etcdserver.EtcdServer) {
	ctx, cancel := context.WithTimeout(context.Background(), server.Cfg.ReqTimeout())
	defer cancel()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		clients.GracefulStop()
	}()
	select {
	case <-graceful:
	case <-ctx.Done():
		clients.Stop()
		<-graceful
	}
}
