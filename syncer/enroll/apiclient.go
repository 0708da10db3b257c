package enroll

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/version"
)

// refusal is a permanent refusal: the same request would get it again.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return "the control plane refuses: " + r.text }

// apiClient sends requests to the control plane's API.
type apiClient struct {
	base    string
	client  *http.Client
	timeout time.Duration
}

func newAPIClient(cfg Config) *apiClient {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Time: cfg.Now}
	return &apiClient{base: strings.TrimRight(cfg.ControlPlane, "/"), timeout: cfg.Timeout, client: &http.Client{
		Transport: outbound.Follow(cfg.Dial.Transport(conf), cfg.Roots),
		// The API does not redirect; following would send the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// close closes idle connections.
func (c *apiClient) close() { c.client.CloseIdleConnections() }

// post sends one request. An error that is not a *refusal is temporary.
func (c *apiClient) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, "+v1.ProblemType)
	req.Header.Set("User-Agent", version.UserAgent("oscar-syncer"))
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxState+1))
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	if len(answer) > maxState {
		return fmt.Errorf("POST %s: the answer is larger than %d bytes", path, maxState)
	}
	if resp.StatusCode != http.StatusOK {
		return answerError(path, resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("POST %s: the answer is not what this syncer knows: %w", path, err)
	}
	return nil
}

// maxExcerpt bounds what an error shows of an unknown answer, in bytes.
const maxExcerpt = 200

// answerError reads an answer that is an error. Only a problem of the API is a refusal: any other
// answer may come from a proxy.
func answerError(path string, status int, answer []byte) error {
	var p v1.Problem
	if json.Unmarshal(answer, &p) != nil || p.Code == "" {
		return fmt.Errorf("POST %s: status %d: %s", path, status, strings.ToValidUTF8(string(answer[:min(len(answer), maxExcerpt)]), "?"))
	}
	parts := []string{p.Detail}
	for _, v := range p.Violations {
		parts = append(parts, v.Path+": "+v.Message)
	}
	text := strings.Join(parts, "; ")
	switch p.Code {
	case v1.CodeForbidden, v1.CodeFailedPrecondition, v1.CodeConflict, v1.CodeInvalid, v1.CodeTooLarge:
		return &refusal{p.Code, text}
	}
	return fmt.Errorf("POST %s: %d %s: %s", path, status, p.Code, text)
}
