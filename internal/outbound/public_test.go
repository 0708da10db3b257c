package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	own := []net.Addr{&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2a00:1450::7"), Mask: net.CIDRMask(64, 128)}}
	allowed := []netip.Prefix{netip.MustParsePrefix("10.7.0.0/16"), netip.MustParsePrefix("fd00:7::/32")}
	for address, public := range map[string]bool{
		"8.8.8.8": true, "8.8.4.5": true, "100.63.255.255": true, "100.128.0.0": true, "172.15.0.1": true, "172.32.0.1": true, "192.0.1.1": true,
		"2a00:1450:4001::1": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,
		// Allowed, in each of its forms.
		"10.7.1.2": true, "::ffff:10.7.1.2": true, "64:ff9b::a07:102": true, "fd00:7::1": true,

		"127.0.0.1": false, "127.255.255.254": false, "::1": false, "::ffff:127.0.0.1": false, "64:ff9b::7f00:1": false, "::127.0.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "::": false, "::ffff:0.0.0.0": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "::ffff:192.168.1.1": false, "64:ff9b::c0a8:101": false,
		"2002:c0a8:101::1": false, "2002:808:808::1": false, "2001:0:808:808::1": false, "64:ff9b:1::1": false, "::10.7.1.2": false,
		"100.64.0.1": false, "100.100.100.200": false, "100.127.255.255": false,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "64:ff9b::a9fe:a9fe": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"fc00::1": false, "fd00:ec2::254": false, "fdff::1": false, "168.63.129.16": false, "192.0.0.192": false,
		"192.0.2.1": false, "198.51.100.1": false, "203.0.113.1": false, "2001:db8::1": false, "3fff::1": false, "198.18.0.1": false, "198.19.255.255": false,
		"192.88.99.1": false, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false, "ff02::1": false, "ff0e::1": false,
		"5f00::1": false, "100::1": false, "4000::1": false, "2001:2::1": false,
		// This machine's own, although public.
		"8.8.4.4": false, "::ffff:8.8.4.4": false, "64:ff9b::808:404": false, "2a00:1450::7": false,
	} {
		if why := notPublic(netip.MustParseAddr(address), allowed, own); (why == "") != public {
			t.Errorf("%s: %q", address, why)
		}
	}
}

// TestNoWayLeadsToThisMachine: neither a name nor another form of its address, nor a
// proxy, nor an address of its interfaces.
func TestNoWayLeadsToThisMachine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(server.Close)
	t.Setenv("HTTP_PROXY", server.URL)
	transport := Transport(nil)
	OnlyPublic(transport, nil, nil)
	t.Cleanup(transport.CloseIdleConnections)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "[::1]"}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok {
			hosts = append(hosts, "["+n.IP.String()+"]")
			if n.IP.To4() != nil {
				hosts[len(hosts)-1] = n.IP.String()
			}
		}
	}
	for _, host := range hosts {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":"+port, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		refused, ok := errors.AsType[*NotPublicError](err)
		if !ok || strings.ContainsAny(refused.Error(), "0123456789") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestAGivenDialIsGuardedToo: it is called for public addresses and allowed ones alone.
func TestAGivenDialIsGuardedToo(t *testing.T) {
	t.Parallel()
	errDialled := errors.New("dialled")
	transport := Transport(nil)
	OnlyPublic(transport, []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, func(context.Context, string, string) (net.Conn, error) {
		return nil, errDialled
	})
	for address, reached := range map[string]bool{"8.8.8.8:80": true, "127.0.0.2:80": true, "127.0.0.1:80": false, "10.0.0.1:80": false, "localhost:80": false, "example.org:80": false} {
		if _, err := transport.DialContext(t.Context(), "tcp", address); err == nil || errors.Is(err, errDialled) != reached {
			t.Errorf("%s: %v", address, err)
		}
	}
}
