package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Mark identifies one life of one replica. Token is secret: 64 hexadecimal digits.
type Mark struct {
	UID        string
	Generation int64
	// Federation is the uid of the federation.
	Federation string
	// Epoch of the generation; empty in the first one.
	Epoch        string
	ControlPlane string
	Token        string
}

// Origin is how the workers reach the coordinator's cluster.
type Origin struct {
	ClusterID string
	Endpoint  string
	SSLVerify bool
}

// Template is a service made ready to be rendered for each node of its graph:
// what is the same for all of them is done once. It is safe for concurrent use, and
// neither it nor what it renders changes the service.
type Template struct {
	graph  *Graph
	origin Origin
	// public is what all nodes have in common, and patch its secrets as fields of a
	// JSON object, without the braces.
	public *oscar.Service
	patch  string
	// coordinator is the federation that the coordinator is sent.
	coordinator *oscar.Federation
}

// NewTemplate parts what all nodes have in common into public and secret.
func NewTemplate(s *oscar.Service, g *Graph, o Origin) *Template {
	out := s.Clone()
	out.Token, out.Owner, out.Namespace = "", "", ""
	out.DropState()
	dropHiddenProvider(out)
	retainVolume(out)
	out.Federation = renderFederation(s, g)
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool { return Reserved(key) })
	// A definition that was read from an OSCAR has its labels, with the name of the service there.
	maps.DeleteFunc(out.Labels, oscar.SetsLabel)
	out.Clusters = nil
	public, patch := oscar.SplitSecrets(out) // which leaves the refresh token out of both
	coordinator := *public.Federation
	coordinator.Topology = oscar.TopologyNone
	return &Template{
		graph: g, origin: o, public: public, patch: strings.TrimSuffix(strings.TrimPrefix(string(patch), "{"), "}"), coordinator: &coordinator,
	}
}

// Render is what the OSCAR of node i is sent: public, which shares its parts with
// those of other nodes and must not be changed, and the secrets as a merge patch on
// it (oscar.SplitSecrets). It carries
//
//   - name and cluster_id of the node, the mark and the token; the worker
//     annotation, which makes OSCAR keep that token
//   - a federation without members, so that OSCAR itself sends nothing to anybody;
//     topology none for the coordinator, whose creation makes the buckets, and
//     mesh for the others, whose creation makes and touches none; the syncer sends none for
//     one that uses its own cluster's storage
//   - for the others, the origin annotations and the origin's address, without
//     credentials
//
// and of the user's definition everything else as it was given, but for what OSCAR
// fills in itself (namespace, owner, bucket_list, volume_status, deployment, and labels), the
// addresses of other clusters, and the refresh token, which is never sent. A volume that
// its creation makes is to be retained.
//
// It fails when node i is not there or is no replica, or when the mark has no token.
func (t *Template) Render(i int, m Mark) (public *oscar.Service, patch json.RawMessage, err error) {
	if i < 0 || i >= len(t.graph.Nodes) {
		return nil, nil, fmt.Errorf("render: node %d of %d is not there", i, len(t.graph.Nodes))
	}
	node := t.graph.Nodes[i]
	if !node.Replica() {
		return nil, nil, fmt.Errorf("render: %s is no replica", node.Name())
	}
	if m.Token == "" || m.UID == "" {
		return nil, nil, fmt.Errorf("render: %s has no mark", node.Name())
	}
	token, err := json.Marshal(m.Token)
	if err != nil {
		return nil, nil, fmt.Errorf("render: %s: %w", node.Name(), err)
	}
	out := *t.public
	out.Name, out.ClusterID = node.Member.ServiceName, node.Member.ClusterID
	out.Annotations = renderAnnotations(t.public.Annotations, t.graph, node, m, t.origin)
	if node.Coordinator {
		out.Federation = t.coordinator
	} else {
		out.Clusters = map[string]oscar.ClusterCredential{
			originID(t.graph, t.origin): {Endpoint: t.origin.Endpoint, SSLVerify: t.origin.SSLVerify},
		}
	}
	secrets := `{"token":` + string(token)
	if t.patch != "" {
		secrets += "," + t.patch
	}
	return &out, json.RawMessage(secrets + "}"), nil
}

// Common is what the nodes have in common: the public part, on which Changes makes what Render
// is, and the secrets, but for the tokens, as a merge patch.
func (t *Template) Common() (public *oscar.Service, secrets json.RawMessage) {
	return t.public, json.RawMessage("{" + t.patch + "}")
}

// Changes is Render as merge patches on Common.
func (t *Template) Changes(i int, m Mark) (public, secrets json.RawMessage, err error) {
	whole, _, err := t.Render(i, m)
	if err != nil {
		return nil, nil, err
	}
	annotations := map[string]string{}
	for key, value := range whole.Annotations {
		if had, ok := t.public.Annotations[key]; !ok || had != value {
			annotations[key] = value
		}
	}
	changes := map[string]any{"name": whole.Name, "cluster_id": whole.ClusterID, "annotations": annotations}
	if whole.Federation.Topology != t.public.Federation.Topology {
		changes["federation"] = map[string]any{"topology": whole.Federation.Topology}
	}
	if len(whole.Clusters) > 0 {
		changes["clusters"] = whole.Clusters
	}
	if public, err = json.Marshal(changes); err != nil {
		return nil, nil, fmt.Errorf("render: %w", err)
	}
	secrets, err = json.Marshal(map[string]string{"token": m.Token})
	return public, secrets, err
}

// dropHiddenProvider removes a minio.default that OSCAR itself answered, as in a
// definition that was read and is sent back: with the origin annotations and an
// endpoint, a worker's OSCAR would use that one instead of its own.
func dropHiddenProvider(s *oscar.Service) {
	p := s.StorageProviders
	if p == nil {
		return
	}
	if p.MinIO[oscar.ProviderDefault].Hidden() {
		delete(p.MinIO, oscar.ProviderDefault)
		if len(p.MinIO) == 0 {
			p.MinIO = nil
		}
	}
}

// renderFederation keeps the fields that we do not know; deployment, drift and
// weights are ours. The threshold is left out: OSCAR's own rescheduler would try
// to move jobs to members that it does not have.
func renderFederation(s *oscar.Service, g *Graph) *oscar.Federation {
	f := &oscar.Federation{
		GroupID:    g.GroupID,
		Topology:   oscar.TopologyMesh,
		Delegation: g.Delegation,
		Members:    []oscar.Member{},
	}
	if s.Federation != nil {
		f.Extra = s.Federation.Extra
	}
	return f
}

// renderAnnotations adds ours to those of the user.
func renderAnnotations(users map[string]string, g *Graph, node Node, m Mark, o Origin) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, users)
	annotations[oscar.AnnotationWorker] = "true"
	annotations[oscar.AnnotationUID] = m.UID
	annotations[oscar.AnnotationGeneration] = strconv.FormatInt(m.Generation, 10)
	annotations[oscar.AnnotationControlPlane] = m.ControlPlane
	if m.Federation != "" {
		annotations[oscar.AnnotationFederation] = m.Federation
		if node.Coordinator {
			annotations[oscar.AnnotationSettings] = Settings{Topology: g.Topology, Deployment: g.Deployment, Drift: g.Drift}.String()
		}
	}
	if m.Epoch != "" {
		annotations[oscar.AnnotationEpoch] = m.Epoch
	}
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
