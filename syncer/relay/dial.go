package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/version"
)

// maxAnswer bounds an answer of the API in bytes; a challenge has less than 1 KiB.
const maxAnswer = 16 << 10

// errConnected says that the instance that answered has a stream already.
var errConnected = errors.New("the instance that answered has a stream")

// dialer opens streams.
type dialer struct {
	base    string
	dial    outbound.Dial
	tls     func() *tls.Config
	timeout time.Duration
}

// dialled is what a call of open has learned, also where it opened no stream.
type dialled struct {
	// stream is to the instance; nil and empty without one.
	stream   net.Conn
	instance string
	// running is how many instances there are; 0 when none has said it.
	running int
}

// open asks one instance for a challenge, and then for a stream with the proof. Both requests of
// a call share one connection, so that a load balancer sends them to the same instance.
func (c *dialer) open(ctx context.Context, site Site, connected []string) (d dialled, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: c.dial.Within(10 * time.Second), TLSClientConfig: c.tls(),
		TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: maxAnswer,
	}
	defer transport.CloseIdleConnections() // a stream is not idle
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	id, uid := site.Cluster()
	challenge, err := c.challenge(ctx, client, v1.Relay{ClusterID: id, ClusterUID: uid, Connected: connected})
	if err != nil {
		return d, err
	}
	d.running = challenge.Instances
	if challenge.Challenge == "" {
		return d, errConnected
	}
	proof, err := site.OpenProof(challenge.Challenge)
	if err != nil {
		return d, fmt.Errorf("the challenge of the control plane cannot be opened: %w", err)
	}
	header := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {v1.RelayProtocol}, "User-Agent": {version.UserAgent("oscar-syncer")},
		v1.RelayClusterHeader: {id}, v1.RelayUIDHeader: {uid}, v1.RelayProofHeader: {proof},
		v1.RelayConnectedHeader: {strings.Join(connected, ",")},
	}
	for range upgrades {
		if d.stream, d.instance, err = c.upgrade(ctx, client, header); !errors.Is(err, errConnected) {
			break
		}
	}
	return d, err
}

// upgrades is how often a proof is tried: a load balancer may send each request to another
// instance, and some of them have a stream already.
const upgrades = 3

func (c *dialer) challenge(ctx context.Context, client *http.Client, in v1.Relay) (out v1.RelayChallenge, err error) {
	const path = "/system/relay/challenge"
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {version.UserAgent("oscar-syncer")}}
	resp, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return out, fmt.Errorf("POST %s: %w", path, err)
	case resp.StatusCode != http.StatusOK:
		return out, statusError("POST "+path, resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("POST %s: the answer is not what this syncer knows: %w", path, err)
	}
	return out, nil
}

func (c *dialer) upgrade(ctx context.Context, client *http.Client, header http.Header) (net.Conn, string, error) {
	const path = "/system/relay"
	var under net.Conn
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { under = info.Conn }})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	body, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok || under == nil {
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // for the error, as far as it was received
		if resp.StatusCode == http.StatusConflict {
			return nil, "", errConnected
		}
		return nil, "", statusError("GET "+path, resp.StatusCode, answer)
	}
	if got := resp.Header.Get("Upgrade"); !strings.EqualFold(got, v1.RelayProtocol) {
		return nil, "", errors.Join(fmt.Errorf("GET %s: the connection was upgraded to %q", path, got), body.Close())
	}
	return &upgraded{Conn: under, body: body, closed: make(chan struct{})}, resp.Header.Get(v1.RelayInstanceHeader), nil
}

// maxExcerpt bounds what an error shows of an unknown answer, in bytes.
const maxExcerpt = 200

func statusError(what string, status int, answer []byte) error {
	var p v1.Problem
	if json.Unmarshal(answer, &p) == nil && p.Code != "" {
		return fmt.Errorf("%s: %d %s: %s", what, status, p.Code, p.Detail)
	}
	return fmt.Errorf("%s: status %d: %s", what, status, strings.ToValidUTF8(string(answer[:min(len(answer), maxExcerpt)]), "?"))
}
