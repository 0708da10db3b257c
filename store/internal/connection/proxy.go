package connection

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// dial connects to a member of etcd, by the proxy that the environment names. gRPC would do so, too, but gives all
// members the address of the proxy: its policies then take them for one, and use no other.
func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := &net.Dialer{KeepAlive: -1} // gRPC asks whether the other end is there
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return dialer.DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
	}
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, err
	}
	if proxy == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	at := proxy.Host
	if proxy.Port() == "" {
		at = net.JoinHostPort(proxy.Hostname(), "80")
	}
	conn, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	out, err := through(ctx, conn, proxy.User, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the proxy %s: %w", proxy.Host, err), conn.Close())
	}
	return out, nil
}

// through has a proxy connect a connection to an address.
func through(ctx context.Context, conn net.Conn, user *url.Userinfo, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // then it fails
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s for %s", resp.Status, address)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return readAhead{conn, io.MultiReader(io.LimitReader(read, int64(read.Buffered())), conn)}, nil
}

// readAhead is a connection of which something was read already.
type readAhead struct {
	net.Conn
	r io.Reader
}

// Read implements net.Conn.
func (c readAhead) Read(p []byte) (int, error) { return c.r.Read(p) }
