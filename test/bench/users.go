package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/oscarfed/oscarfed/internal/oidcsim"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

const (
	// crowdUsers is how many users a crowd has.
	crowdUsers = 1000

	group, audience = "scientists", "oscar"
)

// users are people with accounts at an issuer of their own.
type users struct {
	provider *oidcsim.Provider
	server   *http.Server
	ended    chan error

	mu sync.Mutex
	// access and refresh are the tokens of the users that have done something.
	access, refresh map[int]string
}

func newUsers() (*users, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	provider, err := oidcsim.New("http://" + l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	u := &users{
		provider: provider, server: &http.Server{Handler: provider, ReadHeaderTimeout: time.Minute},
		ended: make(chan error, 1), access: map[int]string{}, refresh: map[int]string{},
	}
	go func() { u.ended <- u.server.Serve(l) }()
	return u, nil
}

// as gives requests the access token of the i-th user, which lasts for an hour.
func (u *users) as(i int) func(*http.Request) error {
	return func(r *http.Request) error {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.access[i] == "" {
			token, err := u.provider.Token(u.subject(i), nil)
			if err != nil {
				return err
			}
			u.access[i] = token
		}
		r.Header.Set("Authorization", "Bearer "+u.access[i])
		return nil
	}
}

// subject names the i-th user, who has an account from then on.
func (u *users) subject(i int) string {
	subject := fmt.Sprintf("user-%04d", i)
	u.provider.User(subject, map[string]any{"group_membership": []string{group}})
	return subject
}

// refreshToken is the one that the i-th user gives to a service.
func (u *users) refreshToken(i int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refresh[i] == "" {
		u.refresh[i] = u.provider.RefreshToken(u.subject(i))
	}
	return u.refresh[i]
}

// userOf lets every user of the bench in: an OSCAR that has seen a token before asks no issuer.
func userOf(_ context.Context, token string) (oscarsim.User, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return oscarsim.User{}, err
	}
	var claims jwt.Claims
	err = parsed.UnsafeClaimsWithoutVerification(&claims)
	return oscarsim.User{Subject: claims.Subject, Groups: []string{group}}, err
}

func (u *users) close() error {
	err := u.server.Shutdown(context.Background())
	if ended := <-u.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
