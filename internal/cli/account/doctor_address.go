package account

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/outbound"
)

const (
	// addressTimeout bounds the checks of one address.
	addressTimeout = 10 * time.Second
	// certificateWarning is how long before its end a certificate is mentioned.
	certificateWarning = 14 * 24 * time.Hour
	// maxHealth bounds what is read of the answer of /health, in bytes.
	maxHealth = 4 << 10
)

// address checks the way to a URL: its name, the connection, and the certificate. What only others have
// to reach (elsewhere) is no failure.
func (d *doctor) address(ctx context.Context, what, endpoint string, roots *x509.CertPool, elsewhere bool) bool {
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	bad := func(do string, err error) bool {
		if elsewhere {
			d.warnf(what, "nothing, if those who use it reach it: this machine need not", "from here: %v", err)
			return false
		}
		d.fail(what, do, err)
		return false
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return bad("give a URL such as https://federation.example.org", errors.New("the address is no URL"))
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		d.okf(what, "%s, through the proxy %s", u.Host, proxy.Host)
		return true
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		return bad("is the name right, and known to this machine's DNS?", err)
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // its name is that of a port
	}
	target := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme != "https" {
		return d.plain(ctx, what, target, addresses, bad)
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", target)
	if err != nil {
		return bad("is it running; is its certificate for this name, and of an authority that is trusted here (--ca-file)?", err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return bad("", errors.New("the connection is not one of TLS"))
	}
	leaf := secure.ConnectionState().PeerCertificates[0]
	until := leaf.NotAfter.UTC().Format(time.DateOnly)
	if d.app.Now().Add(certificateWarning).After(leaf.NotAfter) {
		d.warnf(what, "renew the certificate", "%s: the certificate of %s ends on %s", u.Host, leaf.Subject.CommonName, until)
		return true
	}
	d.okf(what, "%s is %s; certificate until %s", u.Host, strings.Join(addresses, ", "), until)
	return true
}

// plain checks an address that is reached without TLS.
func (d *doctor) plain(ctx context.Context, what, target string, addresses []string, bad func(string, error) bool) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return bad("is it running, and does a firewall let this machine through?", err)
	}
	_ = conn.Close()
	if ip := net.ParseIP(addresses[0]); ip == nil || !ip.IsLoopback() {
		d.warnf(what, "use https: everybody on the way can read credentials", "%s is reached without TLS", target)
		return true
	}
	d.okf(what, "%s, on this machine", target)
	return true
}

// health asks whether the control plane serves requests, and looks at its clock.
func (d *doctor) health(ctx context.Context, roots *x509.CertPool) bool {
	transport := outbound.Transport(nil)
	if roots != nil {
		transport.TLSClientConfig.RootCAs = roots
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(d.app.Connection.Endpoint, "/")+"/health", nil)
	if err != nil {
		d.fail("health", "", err)
		return false
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		d.fail("health", "is it a control plane that listens there?", err)
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	text := strings.TrimSpace(string(body))
	switch {
	case err != nil:
		d.fail("health", "read the log of the control plane", err)
		return false
	case resp.StatusCode == http.StatusOK && text == "Ok":
		d.okf("health", "requests are served")
	case resp.StatusCode == http.StatusOK && strings.HasPrefix(text, "Ok, but "):
		d.warnf("health", "oscarfed get usage shows who has what", "%s", strings.TrimPrefix(text, "Ok, but "))
	case resp.StatusCode == http.StatusServiceUnavailable:
		d.fail("health", "read the log of the control plane", errors.New(text))
		return false
	default:
		d.fail("health", "is --endpoint right?", errors.New("no control plane answers here: "+resp.Status))
		return false
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		if skew := date.Sub(d.app.Now()); skew.Abs() > maxSkew {
			d.warnf("clock", "set the clocks: tokens and certificates depend on them", "that of the control plane differs by %s", skew.Abs().Round(time.Second))
		} else {
			d.okf("clock", "that of the control plane agrees")
		}
	}
	return true
}
