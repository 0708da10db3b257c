package oscarsim

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

const (
	// originTimeout is how long OSCAR waits for the origin.
	originTimeout = 20 * time.Second
	// noUser is OSCAR's word for an event without a user.
	noUser = "nil"
)

// MinIOKeys are those of a user at the MinIO of another cluster.
type MinIOKeys struct {
	// Secret is the Kubernetes Secret that the Job mounts, Endpoint the MinIO that its definition names.
	Secret    string `json:"secret"`
	Endpoint  string `json:"endpoint"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
}

// origin is where a Job gets the keys of its origin's MinIO.
type origin struct {
	id string
	wire.Cluster
	// minio is the endpoint that the service's definition names.
	minio string
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// originOf is the origin of a service; nil when its Jobs use the MinIO of its own cluster: it is no worker, or its
// definition names no other MinIO. The caller holds the lock.
func (s *Sim) originOf(svc *wire.Service) (*origin, error) {
	own := svc.StorageProviders.MinIO[wire.DefaultProvider]
	id := strings.TrimSpace(svc.Annotations[wire.OriginClusterAnnotation])
	if own == nil || strings.TrimSpace(own.Endpoint) == "" || own.Endpoint == s.provider.Endpoint || id == "" || svc.Clusters == nil {
		return nil, nil //nolint:nilnil // it has none
	}
	cluster, ok := svc.Clusters[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("origin cluster %q not defined in service clusters", id)
	case strings.TrimSpace(cluster.Endpoint) == "":
		return nil, fmt.Errorf("origin cluster %q endpoint is empty", id)
	}
	return &origin{id, cluster, own.Endpoint, s.cfg.Dial}, nil
}

// keys asks the origin for the keys of the user whose Authorization it is, and names the Secret
// that a Job of the user mounts with them. It takes as long as the origin does, up to 20 s: the
// caller does not hold the lock.
func (o *origin) keys(ctx context.Context, authorization, user string) (*MinIOKeys, error) {
	provider, err := o.provider(ctx, authorization)
	if err != nil {
		return nil, fmt.Errorf("error fetching origin MinIO credentials: %w", err)
	}
	if provider.AccessKey == "" || provider.SecretKey == "" {
		return nil, fmt.Errorf("origin MinIO credentials are empty for cluster %q", o.id)
	}
	if user = strings.TrimSpace(user); user == "" || user == noUser {
		return nil, errors.New("origin user id is missing for delegated job")
	}
	return &MinIOKeys{
		Secret: shortName(user) + "-origin-minio-" + secretSuffix(o.id), Endpoint: o.minio, AccessKey: provider.AccessKey, SecretKey: provider.SecretKey,
	}, nil
}

// provider asks the origin how its MinIO is reached.
func (o *origin) provider(ctx context.Context, authorization string) (*wire.MinIOProvider, error) {
	endpoint := strings.TrimSpace(o.Endpoint)
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("invalid origin endpoint %q: %w", endpoint, err)
	}
	target.Path = path.Join(target.Path, "system", "config")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", authorization)
	transport := &http.Transport{
		DialContext: o.dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: !o.SSLVerify}, //nolint:gosec // as OSCAR does what the definition says
	}
	resp, err := (&http.Client{Transport: transport, Timeout: originTimeout}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("origin /system/config returned status %d", resp.StatusCode)
	}
	var config struct {
		MinIO *wire.MinIOProvider `json:"minio_provider"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxBody)).Decode(&config); err != nil {
		return nil, err
	}
	if config.MinIO == nil {
		return nil, errors.New("origin /system/config did not include minio_provider")
	}
	return config.MinIO, nil
}

// eventUser is the user whom OSCAR runs a Job for: the user in a MinIO event, else the sender,
// else none. An event that looks like MinIO's and is not has an empty one, since OSCAR fails to
// read it and goes on.
func eventUser(event []byte, sender string) (user string) {
	var decoded map[string]any
	if json.Unmarshal(event, &decoded) == nil {
		if records, ok := decoded["Records"].([]any); ok {
			return firstPrincipal(records)
		}
	}
	if sender != "" {
		return sender
	}
	return noUser
}

func firstPrincipal(records []any) string {
	if len(records) == 0 {
		return ""
	}
	first, _ := records[0].(map[string]any)
	request, _ := first["requestParameters"].(map[string]any)
	principal, ok := request["principalId"].(string)
	if _, sent := request["sourceIPAddress"].(string); !ok || !sent {
		return ""
	}
	return principal
}

// shortName is a subject as OSCAR uses it in names: without what follows the @ of EGI.
func shortName(subject string) string {
	if at := egiUser.FindStringIndex(subject); at != nil {
		return subject[:at[1]-1]
	}
	return subject
}

// secretSuffix makes the id of a cluster fit for the name of a Secret.
func secretSuffix(id string) string {
	id = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimSpace(id))), "-.")
	if id == "" {
		return "provider"
	}
	return id
}
