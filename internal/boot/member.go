package boot

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/store/members"
)

// EtcdPrepareMember is the configuration of the command etcd prepare-member.
type EtcdPrepareMember struct {
	Name            string   `arg:"" help:"The member's name in initial-cluster."`
	MemberConfig    string   `env:"-" required:"" placeholder:"FILE" help:"etcd's configuration file, the same for all members, with initial-cluster."`
	AdvertiseClient []string `name:"advertise-client-url" env:"-" required:"" sep:"," placeholder:"URL" help:"Client URLs of this member."`
	Out             string   `env:"-" required:"" placeholder:"DIR" help:"Where etcd.yaml goes, this member's configuration, and clients.crt."`
	Trust           []string `env:"-" sep:"," placeholder:"FILE" help:"Authorities of clients: they are put together in clients.crt, which becomes the trusted-ca-file for clients."`
	CAFile          string   `name:"etcd-ca-file" placeholder:"FILE" help:"CA of etcd's certificates for clients."`
	Authority       string   `name:"etcd-authority" placeholder:"DIR" help:"Authority of etcd's users: a member that lost its data is replaced. Without it the member waits until somebody has done it."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c EtcdPrepareMember) Validate() error {
	return errors.Join(when(c.Out == "", "--out must not be empty"), when(c.MemberConfig == "", "--member-config must not be empty"))
}

const (
	stateNew, stateExisting = "new", "existing"

	// noDataPath is where a member that waits for its start says that it has no data.
	noDataPath = "/oscarfed/no-data"

	memberConfigName  = "etcd.yaml"
	memberClientsName = "clients.crt"

	// memberPause is between two looks at the other members.
	memberPause = 2 * time.Second
	// memberLook bounds one question to another member, and maxMembers its answer.
	memberLook = 5 * time.Second
	maxMembers = 1 << 20
)

// member is an etcd member that is about to start.
type member struct {
	memberFile

	cfg EtcdPrepareMember
	log *slog.Logger
}

// start is with what a member starts.
type start struct {
	state string
	// peers are the members, this one included.
	peers map[string]string
}

// RunEtcdPrepareMember waits until a member of etcd can be started safely, and writes its
// configuration. A member that has data starts with it. One without data starts as a member that the
// others do not know from before: it would have forgotten what it agreed to, and the cluster could lose
// what was acknowledged. A new cluster is made when all members say that they have no data; from a backup,
// when the others say so of the one that was restored.
func RunEtcdPrepareMember(ctx context.Context, cfg EtcdPrepareMember, log *slog.Logger, _ io.Writer) error {
	m, err := newMember(cfg, log)
	if err != nil {
		return err
	}
	data, err := m.data()
	if err != nil {
		return err
	}
	if data == ownData {
		return m.write(start{stateExisting, m.peers}) // etcd goes by its data
	}
	how, err := m.wait(ctx)
	if err != nil {
		return err
	}
	return m.write(how)
}

// wait tells the others whether there is data here, until it is known how the member starts.
func (m *member) wait(ctx context.Context) (how start, err error) {
	end, err := m.serve(ctx)
	if err != nil {
		return start{}, err
	}
	// etcd listens there next.
	defer func() { err = errors.Join(err, end()) }()
	said := ""
	for {
		how, reason := m.decide(ctx)
		if ctx.Err() != nil {
			return start{}, context.Cause(ctx)
		}
		if how != nil {
			return *how, nil
		}
		if reason != said {
			m.log.Warn("etcd member does not start yet", "member", m.cfg.Name, "reason", reason)
			said = reason
		}
		select {
		case <-ctx.Done():
			return start{}, context.Cause(ctx)
		case <-time.After(memberPause):
		}
	}
}

// serve answers other members at the address where they reach this one.
func (m *member) serve(ctx context.Context) (end func() error, err error) {
	at, err := url.Parse(m.text("listen-peer-urls"))
	if err != nil {
		return nil, fmt.Errorf("etcd's configuration: listen-peer-urls: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	if _, ok := m.peerSecurity(); ok {
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return m.peerTLS() },
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+noDataPath, func(w http.ResponseWriter, _ *http.Request) {
		if data, err := m.data(); err != nil || data != noData {
			http.Error(w, "it has data", http.StatusNotFound)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: memberLook, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() error {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

func newMember(cfg EtcdPrepareMember, log *slog.Logger) (*member, error) {
	file, err := readMemberFile(cfg.MemberConfig, cfg.Name)
	if err != nil {
		return nil, err
	}
	m := &member{memberFile: file, cfg: cfg, log: log}
	_, err = m.peerTLS()
	return m, err
}

// peerSecurity are the settings of certificates for peers; false without TLS.
func (m *member) peerSecurity() (map[string]any, bool) {
	security, ok := m.settings[peerSecurityKey].(map[string]any)
	return security, ok
}

// peerTLS is what members prove themselves to each other with; nil without TLS. The files are read each time: they may be
// wrong, or end, and are replaced while the member waits.
func (m *member) peerTLS() (*tls.Config, error) {
	security, ok := m.peerSecurity()
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	pool, err := certificates("peer CA file", setting(security, trustedCAKey))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(setting(security, "cert-file"), setting(security, "key-file"))
	if err != nil {
		return nil, fmt.Errorf("the certificate for etcd's peers: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// decide says how the member starts, or why it does not yet.
func (m *member) decide(ctx context.Context) (how *start, reason string) {
	data, err := m.data() // a restore may have made some
	if err != nil {
		return nil, err.Error()
	}
	views, others, silent, err := m.ask(ctx)
	switch {
	case err != nil:
		return nil, err.Error()
	case data == ownData:
		return &start{stateExisting, m.peers}, ""
	case data == restoredData && len(views) > 0:
		return nil, "it was restored from a backup, and another member runs with data of before: restore that one, too"
	case len(views) == 0 && len(silent) > 0:
		return nil, "no other member runs, and these do not say that they have no data: " + strings.Join(silent, ", ")
	case data == restoredData:
		if err := m.own(); err != nil {
			return nil, err.Error()
		}
		return &start{stateExisting, m.peers}, ""
	case len(views) == 0:
		return &start{stateNew, m.peers}, ""
	}
	self := m.self(views[0])
	for _, view := range views {
		if one := m.self(view); one.ID != self.ID || len(one.ClientURLs) != len(self.ClientURLs) {
			return nil, "the other members do not agree yet on what it is"
		}
	}
	switch {
	case self.ID != 0 && self.Name == "":
		return &start{stateExisting, m.named(views[0])}, ""
	case self.ID != 0 && len(self.ClientURLs) == 0:
		return &start{stateNew, m.peers}, "" // the cluster is being made
	case m.cfg.Authority == "":
		return nil, "it lost its data: replace it by oscarfed etcd replace-member " + m.cfg.Name + " --peer-url " + m.peers[m.cfg.Name]
	}
	m.log.Warn("the member lost its data and is replaced", "member", m.cfg.Name)
	if err := m.replace(ctx, others); err != nil {
		return nil, "it lost its data, and cannot be replaced: " + err.Error()
	}
	return nil, "it was replaced"
}

// self is this member among all; empty when it is none of them.
func (m *member) self(all []members.Member) members.Member {
	for _, one := range all {
		if slices.Contains(one.PeerURLs, m.peers[m.cfg.Name]) {
			return one
		}
	}
	return members.Member{}
}

// ask gives what each other member that runs says of all members, the client URLs of the others, and the
// names of those that neither run nor say that they have no data.
func (m *member) ask(ctx context.Context) (views [][]members.Member, others, silent []string, err error) {
	conf, err := m.peerTLS()
	if err != nil {
		return nil, nil, nil, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}, Timeout: memberLook}
	for _, name := range slices.Sorted(maps.Keys(m.peers)) {
		if name == m.cfg.Name {
			continue
		}
		all, err := membersAt(ctx, client, m.peers[name])
		if err != nil {
			if err = getJSON(ctx, client, m.peers[name]+noDataPath, nil); err != nil {
				m.log.Debug("etcd member does not answer", "member", name, "error", err)
				silent = append(silent, name+distrust(err))
			}
			continue
		}
		views = append(views, all)
		for _, one := range all {
			if one.Name == name {
				others = append(others, one.ClientURLs...)
			}
		}
	}
	return views, others, silent, nil
}

// distrust says, after the name of a member, that this one and it do not trust each other's certificates; empty for
// another error.
func distrust(err error) string {
	if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return " (its certificate is not trusted here: " + wrong.Error() + ")"
	}
	if no, ok := errors.AsType[*net.OpError](err); ok && no.Op == "remote error" {
		return " (it does not trust the certificate of this member: " + no.Err.Error() + ")"
	}
	return ""
}

// membersAt asks one member for all, at the address where etcd itself asks.
func membersAt(ctx context.Context, client *http.Client, peer string) (all []members.Member, err error) {
	var said []struct {
		ID         uint64   `json:"id"`
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`   //nolint:tagliatelle // etcd's name
		ClientURLs []string `json:"clientURLs"` //nolint:tagliatelle // as above
	}
	if err := getJSON(ctx, client, peer+"/members", &said); err != nil {
		return nil, err
	}
	for _, one := range said {
		all = append(all, members.Member{ID: one.ID, Name: one.Name, PeerURLs: one.PeerURLs, ClientURLs: one.ClientURLs})
	}
	return all, nil
}

// getJSON asks another member.
func getJSON(ctx context.Context, client *http.Client, at string, answer any) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxMembers)).Decode(answer)
}

// named are the peer URLs of the members that there are, by name. One that never ran has none in etcd.
func (m *member) named(all []members.Member) map[string]string {
	return peersOf(all, func(peer string) string {
		for name, at := range m.peers {
			if at == peer {
				return name
			}
		}
		return ""
	})
}

// peersOf are the peer URLs of members by name. nameOf names one that never ran by its URL; one that it
// does not know has its URL as its name.
func peersOf(all []members.Member, nameOf func(peer string) string) map[string]string {
	out := map[string]string{}
	for _, one := range all {
		for _, peer := range one.PeerURLs {
			out[cmp.Or(one.Name, nameOf(peer), peer)] = peer
		}
	}
	return out
}

// initialCluster is how etcd is told the peer URLs of its members.
func initialCluster(peers map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		out = append(out, name+"="+peers[name])
	}
	return strings.Join(out, ",")
}

// replace makes the others take this member for a new one.
func (m *member) replace(ctx context.Context, endpoints []string) error {
	cfg := EtcdReplaceMember{
		Name: m.cfg.Name, Etcd: Etcd{Endpoints: endpoints, CAFile: m.cfg.CAFile}, Authority: m.cfg.Authority, PeerURL: []string{m.peers[m.cfg.Name]},
	}
	return RunEtcdReplaceMember(ctx, cfg, m.log, io.Discard)
}

// write writes the member's configuration, whole or not at all.
func (m *member) write(how start) error {
	out := maps.Clone(m.settings)
	out["name"] = m.cfg.Name
	out["advertise-client-urls"] = strings.Join(m.cfg.AdvertiseClient, ",")
	out["initial-advertise-peer-urls"] = m.peers[m.cfg.Name]
	out[clusterStateKey] = how.state
	out[clusterKey] = initialCluster(how.peers)
	if len(m.cfg.Trust) > 0 {
		var bundle []byte
		for _, file := range m.cfg.Trust {
			ca, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("an authority of clients: %w", err)
			}
			bundle = append(append(bundle, ca...), '\n')
		}
		security, _ := m.settings[clientSecurityKey].(map[string]any)
		security = maps.Clone(security)
		if security == nil {
			security = map[string]any{}
		}
		security[trustedCAKey] = filepath.Join(m.cfg.Out, memberClientsName)
		out[clientSecurityKey] = security
		if err := atomicfile.Write(setting(security, trustedCAKey), bundle, 0o600); err != nil {
			return err
		}
	}
	data, err := yaml.Marshal(out)
	if err != nil {
		return err
	}
	m.log.Info("etcd member may start", "member", m.cfg.Name, "initial_cluster_state", how.state, "initial_cluster", out[clusterKey])
	return atomicfile.Write(filepath.Join(m.cfg.Out, memberConfigName), data, 0o600)
}
