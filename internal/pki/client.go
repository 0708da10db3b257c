package pki

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// Client is a client's certificate with its key, in memory alone. It is made anew at the first use
// after two thirds of its life, and when the clock was set back to before its start.
type Client struct {
	authority *Authority
	subject   Subject

	mu      sync.Mutex
	present *tls.Certificate
	renew   time.Time
}

// Client makes certificates for a name. Nothing is signed yet.
func (a *Authority) Client(name string, life time.Duration) *Client {
	return &Client{authority: a, subject: Subject{Name: name, Life: life}}
}

// Certificate is the present certificate: for tls.Config.GetClientCertificate, which
// asks for each connection.
func (c *Client) Certificate() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.authority.now().Round(0) // without the monotonic clock, which stands still while a machine is suspended
	if c.present != nil && now.Before(c.renew) && !now.Before(c.present.Leaf.NotBefore) {
		return c.present, nil
	}
	certPEM, keyPEM, err := c.authority.Issue(c.subject)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", c.subject.Name, err)
	}
	c.present, c.renew = &pair, now.Add(pair.Leaf.NotAfter.Sub(now)*2/3)
	return c.present, nil
}
