package topology

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Mark identifies one life of one replica. Token is secret: 64 hexadecimal digits.
type Mark struct {
	UID          string
	Generation   int64
	ControlPlane string
	Token        string
}

// Origin is how the workers reach the coordinator's cluster.
type Origin struct {
	ClusterID string
	Endpoint  string
	SSLVerify bool
}

// Render is what the OSCAR of node i is sent: public, and the secrets as a merge
// patch on it (oscar.SplitSecrets). It carries
//
//   - name and cluster_id of the node, the mark and the token; the worker
//     annotation, which makes OSCAR keep that token
//   - a federation without members, so that OSCAR itself sends nothing to anybody;
//     topology none for the coordinator, whose creation makes the buckets, and
//     mesh for the others, whose creation makes and touches none
//   - for the others, the origin annotations and the origin's address, without
//     credentials
//
// and of the user's definition everything else as it was given, but for what OSCAR
// fills in itself (namespace, owner, bucket_list, volume_status, deployment), the
// addresses of other clusters, and the refresh token, which is never sent.
//
// It fails when node i is not there or is no replica, or when the mark has no token.
func Render(s *oscar.Service, g *Graph, i int, m Mark, o Origin) (public *oscar.Service, patch json.RawMessage, err error) {
	if i < 0 || i >= len(g.Nodes) {
		return nil, nil, fmt.Errorf("render: node %d of %d is not there", i, len(g.Nodes))
	}
	node := g.Nodes[i]
	if !node.Replica() {
		return nil, nil, fmt.Errorf("render: %s is no replica", node.Name())
	}
	if m.Token == "" || m.UID == "" {
		return nil, nil, fmt.Errorf("render: %s has no mark", node.Name())
	}
	out := s.Clone()
	out.Name, out.ClusterID = node.Member.ServiceName, node.Member.ClusterID
	out.Token = m.Token
	out.Owner, out.Namespace = "", ""
	out.BucketList, out.VolumeStatus, out.Deployment = nil, oscar.VolumeStatus{}, nil
	dropHiddenProvider(out)
	out.Federation = renderFederation(s, g, node)
	out.Annotations = renderAnnotations(s, g, node, m, o)
	out.Clusters = nil
	if !node.Coordinator {
		out.Clusters = map[string]oscar.ClusterCredential{
			originID(g, o): {Endpoint: o.Endpoint, SSLVerify: o.SSLVerify},
		}
	}
	public, patch = oscar.SplitSecrets(out) // which leaves the refresh token out of both
	return public, patch, nil
}

// dropHiddenProvider removes a minio.default that OSCAR itself answered, as in a
// definition that was read and is sent back: with the origin annotations and an
// endpoint, a worker's OSCAR would use that one instead of its own.
func dropHiddenProvider(s *oscar.Service) {
	p := s.StorageProviders
	if p == nil {
		return
	}
	if m := p.MinIO[oscar.ProviderDefault]; m.AccessKey == oscar.HiddenCredential && m.SecretKey == oscar.HiddenCredential {
		delete(p.MinIO, oscar.ProviderDefault)
		if len(p.MinIO) == 0 {
			p.MinIO = nil
		}
	}
}

// renderFederation keeps the fields that we do not know; deployment, drift and
// weights are ours. The threshold is left out: OSCAR's own rescheduler would try
// to move jobs to members that it does not have.
func renderFederation(s *oscar.Service, g *Graph, node Node) *oscar.Federation {
	f := &oscar.Federation{
		GroupID:    g.GroupID,
		Topology:   oscar.TopologyMesh,
		Delegation: g.Delegation,
		Members:    []oscar.Member{},
	}
	if node.Coordinator {
		f.Topology = oscar.TopologyNone
	}
	if s.Federation != nil {
		f.Extra = s.Federation.Extra
	}
	return f
}

func renderAnnotations(s *oscar.Service, g *Graph, node Node, m Mark, o Origin) map[string]string {
	annotations := map[string]string{}
	for key, value := range s.Annotations {
		if !Reserved(key) {
			annotations[key] = value
		}
	}
	annotations[oscar.AnnotationWorker] = "true"
	annotations[oscar.AnnotationUID] = m.UID
	annotations[oscar.AnnotationGeneration] = strconv.FormatInt(m.Generation, 10)
	annotations[oscar.AnnotationControlPlane] = m.ControlPlane
	if !node.Coordinator {
		annotations[oscar.AnnotationOriginCluster] = originID(g, o)
		annotations[oscar.AnnotationOriginService] = g.Nodes[0].Member.ServiceName
	}
	return annotations
}

// Reserved says whether an annotation is set by us alone: a user's own value, as
// in a definition that was read from one cluster and submitted again, is dropped.
func Reserved(annotation string) bool {
	switch annotation {
	case oscar.AnnotationWorker, oscar.AnnotationOriginCluster, oscar.AnnotationOriginService:
		return true
	}
	return strings.HasPrefix(annotation, oscar.AnnotationPrefix)
}

func originID(g *Graph, o Origin) string {
	if o.ClusterID != "" {
		return o.ClusterID
	}
	return g.Nodes[0].Member.ClusterID
}
