package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/share"
)

// UserKeys are a user's at the MinIO of one cluster, as its OSCAR gives them to him.
type UserKeys struct {
	Storage
	Verify               bool
	AccessKey, SecretKey string
}

const (
	// userKeysTimeout is how long a cluster may take.
	userKeysTimeout = 15 * time.Second
	// maxUserKeys bounds its answer in bytes.
	maxUserKeys = 64 << 10
)

// StorageOf asks the OSCAR of a cluster, through its syncer, for the caller's own keys of
// its MinIO, with the caller's access token and no other credentials. It keeps nothing. A cluster of
// other groups is asked only while a replica of the caller's stands there: the jobs of workers use his
// keys, also when he has left the group.
func (c *Controller) StorageOf(ctx context.Context, caller identity.Caller, cluster string) (*UserKeys, error) {
	token, _ := caller.Token()
	if caller.Administrator || token == "" {
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: "the keys of a cluster's MinIO are given to users alone, by their access tokens: " +
			"to its administrator an OSCAR answers MinIO's root keys, which never leave the cluster"}
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	to := relay.Replica{Cluster: cluster, Tenant: share.Tenant{Account: c.word(caller.Subject)}, Wait: userKeysTimeout}
	var away error
	c.state.Read(func(v *view.View) {
		reg := v.Clusters.Get(cluster).Rec
		if reg == nil || reg.Revoked != nil {
			away = fault.NotFound(fmt.Sprintf("there is no cluster %q", cluster))
			return
		}
		if !mayPlace(caller, reg) && !clustersWithReplicas(v, caller)[cluster] {
			away = forOthers(cluster)
			return
		}
		to.ClusterUID = reg.UID
	})
	if away != nil {
		return nil, away
	}
	ctx, cancel := context.WithTimeout(ctx, userKeysTimeout)
	defer cancel()
	unavailable := func(why string, cause error) (*UserKeys, error) {
		return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Message: fmt.Sprintf("cluster %s: %s", cluster, why), Cause: cause}
	}
	resp, err := c.relay.Config(ctx, to, token)
	if err != nil {
		if e, ok := errors.AsType[*relay.Error](err); ok {
			return unavailable(e.Text, err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("the OSCAR of cluster %s does not let you in", cluster)}
	default:
		return unavailable(fmt.Sprintf("its OSCAR answered %d", resp.StatusCode), nil)
	}
	out, err := readUserKeys(resp.Body)
	switch {
	case err != nil:
		return unavailable(err.Error(), nil)
	case out.AccessKey != caller.Subject:
		c.cfg.Logger.Warn("a cluster answers with keys that are not the caller's; they are not passed on", "cluster", cluster)
		return unavailable("it answers with keys that are not yours; they are not passed on", nil)
	}
	return out, nil
}

// DefaultStorage is the MinIO of the default cluster, which clients of OSCAR take for the
// only one: with the caller's own keys there, where its OSCAR gives him any. Otherwise the
// keys are empty, and missing says why; without a default cluster, or while nothing is
// known of its MinIO, all is empty.
func (c *Controller) DefaultStorage(ctx context.Context, caller identity.Caller) (keys UserKeys, missing string, err error) {
	cluster := c.cfg.DefaultCluster
	if cluster != "" {
		switch own, err := c.StorageOf(ctx, caller, cluster); {
		case err == nil:
			return *own, "", nil
		case ctx.Err() != nil: // the whole request has ended
			return UserKeys{}, "", err
		default:
			missing = err.Error()
			if e, ok := errors.AsType[*fault.Error](err); ok {
				missing = e.Message
			}
		}
	} else {
		missing = "there is no default cluster; name one with ?cluster_id="
	}
	c.state.Read(func(v *view.View) {
		m := v.MinioOf(cluster)
		keys = UserKeys{Storage: Storage{Endpoint: m.MinioEndpoint, Region: m.MinioRegion}, Verify: m.MinioEndpoint == "" || m.MinioVerify}
	})
	return keys, missing, nil
}

func readUserKeys(from io.Reader) (*UserKeys, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxUserKeys+1))
	if err != nil || len(data) > maxUserKeys {
		return nil, errors.New("its answer broke off, or is too long")
	}
	var in struct {
		MinIO oscar.MinIOProvider `json:"minio_provider"`
	}
	if json.Unmarshal(data, &in) != nil { // whose error could quote what it read
		return nil, errors.New("its answer is not what a syncer passes on")
	}
	m := in.MinIO
	return &UserKeys{Storage: Storage{Endpoint: m.Endpoint, Region: m.Region}, Verify: m.Verify, AccessKey: m.AccessKey, SecretKey: m.SecretKey}, nil
}

// Storage is where a cluster keeps its data.
type Storage struct{ Endpoint, Region string }
