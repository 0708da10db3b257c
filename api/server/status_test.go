package server_test

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/store/record"
)

func roomNode(name string, cpu, cpuFree, gpu, gpuFree int64) record.CapacityNode {
	return record.CapacityNode{
		Name: name, CPU: record.NodeAmount{Allocatable: cpu, Free: cpuFree}, Memory: record.NodeMemory{Allocatable: 8 << 30, Free: 8 << 30},
		GPU: record.NodeAmount{Allocatable: gpu, Free: gpuFree}, HasGPU: gpu > 0, Status: record.NodeReady,
	}
}

// TestStatusIsTheSumInOscarsForm: what is not fresh counts for nothing.
func TestStatusIsTheSumInOscarsForm(t *testing.T) {
	at := record.At(time.Date(2026, 11, 20, 13, 4, 5, 120e6, time.UTC))
	f := &fake{room: clusters.Capacities{Jobs: 7, Clusters: []clusters.Capacity{
		{ClusterID: "a", State: record.ClusterActive, Alive: true, Fresh: true, PromisedMillicores: 500, PromisedBytes: 1 << 20, Capacity: &record.Capacity{
			Source: record.CapacityFromOscar, CPU: record.CapacityCPU{TotalFree: 3500, MaxFreeOnNode: 3500}, Memory: record.CapacityMemory{TotalFree: 8 << 30, MaxFreeOnNode: 8 << 30},
			Nodes: []record.CapacityNode{roomNode("n1", 4000, 3500, 0, 0)}, ChangedAt: at}},
		{ClusterID: "b", State: record.ClusterCordoned, Alive: true, Fresh: true, Capacity: &record.Capacity{
			Source: record.CapacityFromKubernetes, CPU: record.CapacityCPU{TotalFree: 6000, MaxFreeOnNode: 2000}, Memory: record.CapacityMemory{TotalFree: 20 << 30, MaxFreeOnNode: 8 << 30},
			Nodes:     []record.CapacityNode{roomNode("n1", 2000, 2000, 2, 1)},
			Unlisted:  &record.CapacityRest{Nodes: 3, CPU: record.NodeAmount{Allocatable: 5000, Free: 4000}, Memory: record.NodeMemory{Allocatable: 12 << 30, Free: 12 << 30}},
			ChangedAt: at}},
		{ClusterID: "c", State: record.ClusterActive, Alive: true},
	}}}
	c := newClient(t, f)
	for _, path := range []string{"/system/status", "/system/status/"} {
		want(t, c.do("GET", path, ""), 200, jsonType,
			`{"cluster":{"nodes_count":5,"metrics":{"cpu":{"total_free_cores":9500,"max_free_on_node_cores":3500,"total_schedulable_cores":9500,"total_schedulable_on_node_cores":3500},`+
				`"memory":{"total_free_bytes":30064771072,"max_free_on_node_bytes":8589934592,"total_schedulable_bytes":30064771072,"max_schedulable_on_node_bytes":8589934592},"gpu":{"total_gpu":2}},`+
				`"nodes":[{"name":"a/n1","cpu":{"capacity_cores":4000,"request_cores":500},"memory":{"capacity_bytes":8589934592},"gpu":0,"is_interlink":false,"status":"Ready","conditions":[{"type":"Ready","status":true}]},`+
				`{"name":"b/n1","cpu":{"capacity_cores":2000},"memory":{"capacity_bytes":8589934592},"gpu":2,"is_interlink":false,"status":"Ready","conditions":[{"type":"Ready","status":true}]}]},`+
				`"oscar":{"deployment_name":"oscarfed","ready":true,"deployment":{"available_replicas":0,"ready_replicas":0,"replicas":0,"creation_timestamp":null,"strategy":"","labels":{}},`+
				`"jobs_count":7,"pods":{"total":0,"states":{}},"oidc":{"enabled":false,"issuers":[],"groups":[]}},"minio":{"buckets_count":0,"total_objects":0},`+
				`"clusters":[{"cluster_id":"a","state":"active","alive":true,"fresh":true,"source":"oscar","changed_at":"2026-11-20T13:04:05.120Z","nodes_count":1,`+
				`"cpu":{"allocatable":4000,"free":3500,"max_free_on_node":3500,"promised":500},"memory":{"allocatable_bytes":8589934592,"free_bytes":8589934592,"max_free_on_node_bytes":8589934592,"promised_bytes":1048576},"gpu":{"allocatable":0,"free":0}},`+
				`{"cluster_id":"b","state":"cordoned","alive":true,"fresh":true,"source":"kubernetes","changed_at":"2026-11-20T13:04:05.120Z","nodes_count":4,`+
				`"cpu":{"allocatable":7000,"free":6000,"max_free_on_node":2000,"promised":0},"memory":{"allocatable_bytes":21474836480,"free_bytes":21474836480,"max_free_on_node_bytes":8589934592,"promised_bytes":0},"gpu":{"allocatable":2,"free":1}},`+
				`{"cluster_id":"c","state":"active","alive":true,"fresh":false,"nodes_count":0,`+
				`"cpu":{"allocatable":0,"free":0,"max_free_on_node":0,"promised":0},"memory":{"allocatable_bytes":0,"free_bytes":0,"max_free_on_node_bytes":0,"promised_bytes":0},"gpu":{"allocatable":0,"free":0}}]}`)
	}
}

// What one cluster says that it has made the sum over all clusters negative.
func TestStatusOfAHostileClusterIsASumAllTheSame(t *testing.T) {
	most, least := int64(math.MaxInt64), int64(math.MinInt64)
	honest := &record.Capacity{
		Source: record.CapacityFromOscar, CPU: record.CapacityCPU{TotalFree: 3500, MaxFreeOnNode: 3500}, Memory: record.CapacityMemory{TotalFree: 8 << 30, MaxFreeOnNode: 8 << 30},
		Nodes: []record.CapacityNode{roomNode("n1", 4000, 3500, 1, 1)},
	}
	for _, n := range []int64{most, least, -1} {
		node := record.CapacityNode{
			Name: "n", CPU: record.NodeAmount{Allocatable: n, Free: -n}, Memory: record.NodeMemory{Allocatable: n, Free: -n}, GPU: record.NodeAmount{Allocatable: n, Free: n}, Status: record.NodeReady,
		}
		hostile := &record.Capacity{
			Source: record.CapacityFromOscar, CPU: record.CapacityCPU{TotalFree: n, MaxFreeOnNode: n}, Memory: record.CapacityMemory{TotalFree: n, MaxFreeOnNode: n},
			Nodes: []record.CapacityNode{node, node}, Unlisted: &record.CapacityRest{Nodes: n, CPU: node.CPU, Memory: node.Memory, GPU: node.GPU},
		}
		f := &fake{room: clusters.Capacities{Clusters: []clusters.Capacity{
			{ClusterID: "a", State: record.ClusterActive, Alive: true, Fresh: true, Capacity: honest},
			{ClusterID: "h", State: record.ClusterActive, Alive: true, Fresh: true, Capacity: hostile},
		}}}
		answer := newClient(t, f).do("GET", "/system/status", "")
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(3500)
		if n > 0 {
			sum = most
		}
		if strings.Contains(string(body), ":-") || !strings.Contains(string(body), fmt.Sprintf(`"total_free_cores":%d,`, sum)) {
			t.Errorf("a cluster that has %d of everything: %s", n, body)
		}
	}
}

func TestStatusListsABoundedNumberOfNodes(t *testing.T) {
	f := &fake{}
	for i := range 10 {
		capacity := &record.Capacity{Source: record.CapacityFromOscar}
		for j := range record.MaxCapacityNodes {
			capacity.Nodes = append(capacity.Nodes, roomNode(fmt.Sprint("n", j), 1, 1, 0, 0))
		}
		f.room.Clusters = append(f.room.Clusters, clusters.Capacity{ClusterID: fmt.Sprint("c", i), State: record.ClusterActive, Fresh: true, Capacity: capacity})
	}
	got := bodyOf(t, newClient(t, f).do("GET", "/system/status", ""))
	if n := strings.Count(got, `"is_interlink"`); n != 1000 || !strings.HasPrefix(got, `{"cluster":{"nodes_count":2000,`) {
		t.Errorf("%d nodes: %.80s", n, got)
	}
}
