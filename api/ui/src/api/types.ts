import type { components } from "./schema";

type Schemas = components["schemas"];

export type Federation = Schemas["Federation"];
export type Replica = Schemas["Replica"];
type ClusterSummary = Schemas["ClusterSummary"];
export type FullCluster = Schemas["Cluster"];
export type Cluster = ClusterSummary | FullCluster;
export type Info = Schemas["Info"];
export type SystemStatus = Schemas["SystemStatus"];
export type Capacity = SystemStatus["clusters"][number];
export type Job = Schemas["Job"];
export type Jobs = Schemas["Jobs"];
export type JobState = Schemas["JobState"];
export type JobExplanation = Schemas["JobExplanation"];
export type JobDecision = Schemas["JobDecision"];
export type Replicas = Schemas["Replicas"];
export type Plan = Schemas["Plan"];
export type PlanField = Schemas["PlanField"];
export type Bucket = Schemas["Bucket"];
export type Generation = Schemas["Generation"];
export type Stats = Schemas["Stats"];
export type Usage = Schemas["Usage"];
export type AuditEntry = Schemas["AuditEntry"];
export type WhoAmI = Schemas["WhoAmI"];
export type LoginIssuer = Schemas["LoginIssuer"];
export type Problem = Schemas["Problem"];
export type Change = Schemas["Event"];
export type SystemEvent = Schemas["SystemEvent"];
export type Bookmark = Schemas["Bookmark"];

/** address is how edges name a replica. */
export function address(r: { cluster_id: string; service_name: string; url?: string }): string {
  return r.url || `${r.cluster_id}/${r.service_name}`;
}

/** services are the replicas that the control plane makes: all but endpoints. */
export function services(f: Federation): Replica[] {
  return f.replicas.filter((r) => r.type !== "endpoint");
}

const ended: ReadonlySet<JobState> = new Set(["succeeded", "failed", "cancelled", "vanished", "parked", "returned"]);

/** hasEnded says whether a job goes on only when somebody replays it. */
export function hasEnded(j: Job): boolean {
  return ended.has(j.state);
}

/** isFull says whether a cluster is told as the administrator sees it. */
export function isFull(c: Cluster): c is FullCluster {
  return "uid" in c;
}
