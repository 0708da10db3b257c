package oscarsim

import (
	"net/http"
	"strings"
	"time"
)

// clusterStatus is the answer of GET /system/status. What is called cores is millicores; memory is in bytes.
type clusterStatus struct {
	Cluster struct {
		Nodes   int `json:"nodes_count"`
		Metrics struct {
			CPU struct {
				Free              int64 `json:"total_free_cores"`
				MaxFree           int64 `json:"max_free_on_node_cores"`
				Schedulable       int64 `json:"total_schedulable_cores"`
				SchedulableOnNode int64 `json:"total_schedulable_on_node_cores"`
			} `json:"cpu"`
			Memory struct {
				Free              int64 `json:"total_free_bytes"`
				MaxFree           int64 `json:"max_free_on_node_bytes"`
				Schedulable       int64 `json:"total_schedulable_bytes"`
				SchedulableOnNode int64 `json:"max_schedulable_on_node_bytes"`
			} `json:"memory"`
			GPU struct {
				Total int64 `json:"total_gpu"`
			} `json:"gpu"`
		} `json:"metrics"`
		List []nodeStatus `json:"nodes"`
	} `json:"cluster"`
	OSCAR struct {
		Deployment string `json:"deployment_name"`
		Ready      bool   `json:"ready"`
		Rollout    struct {
			Available int               `json:"available_replicas"`
			Ready     int               `json:"ready_replicas"`
			Replicas  int               `json:"replicas"`
			Created   string            `json:"creation_timestamp"`
			Strategy  string            `json:"strategy"`
			Labels    map[string]string `json:"labels"`
		} `json:"deployment"`
		Jobs int `json:"jobs_count"`
		Pods struct {
			Total  int            `json:"total"`
			States map[string]int `json:"states"`
		} `json:"pods"`
		OIDC struct {
			Enabled bool     `json:"enabled"`
			Issuers []string `json:"issuers"`
			Groups  []string `json:"groups"`
		} `json:"oidc"`
	} `json:"oscar"`
	MinIO struct {
		Buckets int `json:"buckets_count"`
		Objects int `json:"total_objects"`
	} `json:"minio"`
}

type nodeStatus struct {
	Name        string          `json:"name"`
	CPU         cpuOfNode       `json:"cpu"`
	Memory      memoryOfNode    `json:"memory"`
	GPU         int64           `json:"gpu"`
	IsInterlink bool            `json:"is_interlink"`
	Status      string          `json:"status"`
	Conditions  []nodeCondition `json:"conditions"`
}

type cpuOfNode struct {
	Capacity int64 `json:"capacity_cores,omitempty"`
	Usage    int64 `json:"usage_cores,omitempty"`
	Request  int64 `json:"request_cores,omitempty"`
}

type memoryOfNode struct {
	Capacity int64 `json:"capacity_bytes,omitempty"`
	Usage    int64 `json:"usage_bytes,omitempty"`
	Request  int64 `json:"request_bytes,omitempty"`
}

type nodeCondition struct {
	Type   string `json:"type"`
	Status bool   `json:"status"`
}

// status answers what the nodes have. Jobs and pods are counted only in the administrator's namespace.
func (s *Sim) status(c *call) {
	if s.cfg.NoMetrics {
		c.json(http.StatusInternalServerError, map[string]string{
			"error": "Error getting metrics info: the server could not find the requested resource (get nodes.metrics.k8s.io)",
		})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var st clusterStatus
	st.Cluster.Nodes = len(s.nodes)
	s.kube.observe(time.Now())
	cpu, memory := &st.Cluster.Metrics.CPU, &st.Cluster.Metrics.Memory
	for _, n := range s.nodes {
		n.RequestCPU, n.RequestMemory = s.kube.load.requests(n)
		cpu.Free += n.CPU - n.UsedCPU
		cpu.MaxFree = max(cpu.MaxFree, n.CPU-n.UsedCPU)
		cpu.Schedulable += n.CPU - n.RequestCPU
		cpu.SchedulableOnNode = max(cpu.SchedulableOnNode, n.CPU-n.RequestCPU)
		memory.Free += n.Memory - n.UsedMemory
		memory.MaxFree = max(memory.MaxFree, n.Memory-n.UsedMemory)
		memory.Schedulable += n.Memory - n.RequestMemory
		memory.SchedulableOnNode = max(memory.SchedulableOnNode, n.Memory-n.RequestMemory)
		st.Cluster.Metrics.GPU.Total += n.GPU
		ready := "Ready"
		if n.NotReady {
			ready = "NotReady"
		}
		st.Cluster.List = append(st.Cluster.List, nodeStatus{
			Name: n.Name, CPU: cpuOfNode{n.CPU, n.UsedCPU, n.RequestCPU}, Memory: memoryOfNode{n.Memory, n.UsedMemory, n.RequestMemory},
			GPU: n.GPU, IsInterlink: n.Interlink, Status: ready, Conditions: []nodeCondition{{"Ready", !n.NotReady}},
		})
	}
	o := &st.OSCAR
	o.Deployment, o.Ready = "oscar", true
	o.Rollout.Available, o.Rollout.Ready, o.Rollout.Replicas = 1, 1, 1
	o.Rollout.Created, o.Rollout.Strategy = s.started.Format(time.RFC3339), "RollingUpdate"
	o.Rollout.Labels = map[string]string{"app": "oscar"}
	o.OIDC.Issuers, o.OIDC.Groups = []string{}, append([]string{}, s.cfg.Groups...)
	o.Pods.States = map[string]int{JobPending: 0, JobRunning: 0, JobSucceeded: 0, JobFailed: 0, "Unknown": 0}
	for id, j := range s.kube.jobs {
		if id.namespace != s.cfg.ServicesNamespace || j.status == JobSuspended {
			continue
		}
		o.Jobs++
		o.Pods.Total++
		o.Pods.States[j.status]++
	}
	st.MinIO.Buckets = len(s.minio.buckets)
	for _, b := range s.minio.buckets {
		for name := range b.objects {
			if !strings.HasSuffix(name, "/") {
				st.MinIO.Objects++
			}
		}
	}
	c.json(http.StatusOK, st)
}
