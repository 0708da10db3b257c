package manager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
)

// List reads all services of the cluster with one call. What it returns is read only: a service that
// is as in the list before is the same one.
func (c *Client) List(ctx context.Context) ([]Service, error) {
	in := call{op: OpList, method: http.MethodGet, path: []string{"system", "services"}, limit: maxListBody}
	data, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	services, err := c.lists.parse(data)
	if err != nil {
		return nil, unexpected(in, err)
	}
	return services, nil
}

// lists parses lists of services. They are long and read often, and hardly any service differs from
// one list to the next: those are not parsed again.
type lists struct {
	seed maphash.Seed

	mu sync.Mutex
	// sum is of the last list, services are what it had, and known the same by hashes of the answer.
	sum      [sha256.Size]byte
	services []Service
	known    map[uint64]Service
}

func (l *lists) parse(data []byte) ([]Service, error) {
	sum := sha256.Sum256(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	if sum == l.sum {
		return slices.Clone(l.services), nil
	}
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	services, known := make([]Service, len(all)), make(map[uint64]Service, len(all))
	for i, answered := range all {
		hash := maphash.Bytes(l.seed, answered)
		if as, ok := l.known[hash]; ok && bytes.Equal(as.JSON, answered) {
			services[i] = as
		} else if err := json.Unmarshal(answered, &services[i]); err != nil {
			return nil, err
		}
		known[hash] = services[i]
	}
	l.sum, l.services, l.known = sum, services, known
	return slices.Clone(services), nil
}
