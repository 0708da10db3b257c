package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

var (
	errNoJobs = errors.New("the answer has no jobs in it")
)

// Info is what OSCAR says of itself.
type Info struct {
	Version           string `json:"version"`
	KubernetesVersion string `json:"kubernetes_version"`
	// Serverless is absent where OSCAR has no serverless backend.
	Serverless struct {
		Name string `json:"name"`
	} `json:"serverless_backend"`
}

// Info reads the version.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var out Info
	err := c.read(ctx, call{op: OpInfo, path: []string{"system", "info"}}, &out)
	return out, err
}

// Storage is where the cluster's own MinIO is. The answer that it is read from
// holds MinIO's root keys; they are not decoded.
type Storage struct {
	Endpoint string `json:"endpoint"`
	Region   string `json:"region"`
	// Verify says whether its certificate is verified; nil when OSCAR does not say.
	Verify *bool `json:"verify"`
}

// Storage reads the place of the cluster's MinIO.
func (c *Client) Storage(ctx context.Context) (Storage, error) {
	var out struct {
		MinIO Storage `json:"minio_provider"`
	}
	err := c.read(ctx, call{op: OpConfig, path: []string{"system", "config"}}, &out)
	return out.MinIO, err
}

// Name reads what the OSCAR is called (OSCAR_NAME), which it writes on buckets that its administrator makes as
// their owner.
func (c *Client) Name(ctx context.Context) (string, error) {
	var out struct {
		Config struct {
			Name string `json:"name"`
		} `json:"config"`
	}
	err := c.read(ctx, call{op: OpConfig, path: []string{"system", "config"}}, &out)
	return out.Config.Name, err
}

// Node is what one node can give to pods, in millicores, bytes and whole GPUs, and
// what of it is taken.
type Node struct {
	Name        string
	MilliCPU    int64
	MemoryBytes int64
	GPU         int64
	// TakenMilliCPU and TakenMemory are what the pods on it request; where they request
	// nothing, what they use.
	TakenMilliCPU int64
	TakenMemory   int64
	Ready         bool
	// Interlink nodes are the fronts of other machines: what they say they have is not
	// theirs.
	Interlink bool
}

// Nodes reads the resources of the nodes that take services. What is called cores
// there is millicores. It fails with status 500 on a cluster without a metrics server.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var out struct {
		Cluster struct {
			Nodes []struct {
				Name string `json:"name"`
				CPU  struct {
					Capacity int64 `json:"capacity_cores"`
					Usage    int64 `json:"usage_cores"`
					Request  int64 `json:"request_cores"`
				} `json:"cpu"`
				Memory struct {
					Capacity int64 `json:"capacity_bytes"`
					Usage    int64 `json:"usage_bytes"`
					Request  int64 `json:"request_bytes"`
				} `json:"memory"`
				GPU       int64  `json:"gpu"`
				Interlink bool   `json:"is_interlink"`
				Status    string `json:"status"`
			} `json:"nodes"`
		} `json:"cluster"`
	}
	if err := c.read(ctx, call{op: OpStatus, path: []string{"system", "status"}, limit: maxListBody}, &out); err != nil {
		return nil, err
	}
	nodes := make([]Node, 0, len(out.Cluster.Nodes))
	for _, n := range out.Cluster.Nodes {
		nodes = append(nodes, Node{
			Name: n.Name, MilliCPU: n.CPU.Capacity, MemoryBytes: n.Memory.Capacity, GPU: n.GPU,
			TakenMilliCPU: cmp.Or(n.CPU.Request, n.CPU.Usage), TakenMemory: cmp.Or(n.Memory.Request, n.Memory.Usage),
			Ready: n.Status == "Ready", Interlink: n.Interlink,
		})
	}
	return nodes, nil
}

// Bucket is one bucket of the cluster's MinIO.
type Bucket struct {
	Name  string `json:"bucket_name"`
	Owner string `json:"owner"`
	// Visibility and AllowedUsers are what OSCAR concludes from MinIO's policies. Of a private one a list tells none.
	Visibility   string   `json:"visibility"`
	AllowedUsers []string `json:"allowed_users"`
	// Metadata holds the bucket's tags: from_service, owner_name, ...
	Metadata map[string]string `json:"metadata"`
}

// FromService is the service whose creation made the bucket; empty when OSCAR
// did not note it.
func (b Bucket) FromService() string { return b.Metadata["from_service"] }

// Tagged says whether OSCAR noted anything about it. A PUT of a service makes buckets
// without tags, and so does a request to MinIO itself.
func (b Bucket) Tagged() bool { return b.Owner != "" || len(b.Metadata) > 0 }

// Buckets lists all buckets.
func (c *Client) Buckets(ctx context.Context) ([]Bucket, error) {
	var out []Bucket // null when there are none
	err := c.read(ctx, call{op: OpBuckets, path: []string{"system", "buckets"}, limit: maxListBody}, &out)
	return out, err
}

// maxObjectPages bounds how far CountObjects reads on; a page has 70 objects.
const maxObjectPages = 200

// AllowedImages are the words of which the image of a service must contain one; none when any image may be used. The
// answer that they are read from holds MinIO's root keys; they are not decoded.
func (c *Client) AllowedImages(ctx context.Context) ([]string, error) {
	var out struct {
		Allowed []string `json:"allowed_image_repositories"`
	}
	err := c.read(ctx, call{op: OpConfig, path: []string{"system", "config"}}, &out)
	return out.Allowed, err
}

// CountObjects counts what is in a bucket, following OSCAR's pages up to most. The
// marks of folders, which OSCAR makes with a bucket, do not count. more
// says that there are others. With an error, n and more tell what was counted
// until then.
func (c *Client) CountObjects(ctx context.Context, name string, most int64) (n int64, more bool, err error) {
	page := ""
	for range maxObjectPages {
		var out struct {
			Objects []struct {
				Name string `json:"object_name"`
			} `json:"objects"`
			NextPage string `json:"next_page"`
		}
		in := call{op: OpBucket, subject: name, path: []string{"system", "buckets", name}, limit: maxListBody}
		if page != "" {
			in.query = map[string]string{"page": page}
		}
		if err := c.read(ctx, in, &out); err != nil {
			return n, page != "", err
		}
		for _, o := range out.Objects {
			if !strings.HasSuffix(o.Name, "/") {
				n++
			}
		}
		if out.NextPage == "" {
			return n, false, nil
		}
		if n >= most {
			break
		}
		page = out.NextPage
	}
	return n, true, nil
}

// CreateBucket makes an empty bucket of the administrator's own. It restarts nothing.
func (c *Client) CreateBucket(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]string{"bucket_name": name, "visibility": "private"})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, call{op: OpCreateBucket, subject: name, method: http.MethodPost, path: []string{"system", "buckets"}, body: body})
	return err
}

// Visibility reads who has rights on a bucket, as far as OSCAR knows; empty when neither its owner has any nor
// others.
func (c *Client) Visibility(ctx context.Context, name string) (string, error) {
	var out Bucket
	err := c.read(ctx, call{op: OpBucket, subject: name, path: []string{"system", "buckets", name}, limit: maxListBody}, &out)
	return out.Visibility, err
}

// HideBucket takes from all users the rights on a public bucket. OSCAR may answer 500 and have done it.
func (c *Client) HideBucket(ctx context.Context, name string, timeout time.Duration) error {
	body, err := json.Marshal(map[string]string{"bucket_name": name, "visibility": "private"})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, call{op: OpHideBucket, subject: name, method: http.MethodPut, path: []string{"system", "buckets"}, body: body, timeout: timeout})
	return err
}

// DeleteBucket deletes a bucket and all its objects. The rights that MinIO's policies give on its name go with it
// only when as is its owner's, and they are good for the next bucket of that name.
func (c *Client) DeleteBucket(ctx context.Context, name string, as Bearer, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpDeleteBucket, subject: name, method: http.MethodDelete,
		path: []string{"system", "buckets", name}, as: as, timeout: timeout})
	return err
}
