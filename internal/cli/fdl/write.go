package fdl

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Write writes services as an FDL that can be edited and applied: without what the clusters and
// the control plane fill in.
func Write(w io.Writer, services []*oscar.Service) error {
	list := []map[string]json.RawMessage{}
	for _, s := range services {
		s = s.Clone()
		cluster := s.ClusterID
		s.ClusterID, s.Token, s.Owner, s.Namespace, s.BucketList, s.Deployment = "", "", "", "", nil, nil
		s.VolumeStatus = oscar.VolumeStatus{}
		data, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if cluster == "" {
			cluster = oscar.DefaultClusterKey
		}
		list = append(list, map[string]json.RawMessage{cluster: data})
	}
	data, err := yaml.Marshal(map[string]any{"functions": map[string]any{"oscar": list}})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
