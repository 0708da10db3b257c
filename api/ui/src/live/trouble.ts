import { computed } from "@preact/signals";
import { isFull, type Cluster, type Federation, type Replica } from "../api/types";
import { to } from "../route";
import type { Tone } from "../parts/state";
import { plural } from "../parts/numbers";
import { clusterList, clusters, federationList, federationsOn, name } from "./store";

/** Trouble is one thing that a person should look at. */
export interface Trouble {
  key: string;
  tone: Tone;
  what: string;
  where: string;
  why: string;
  /** hint is what to do; it may be empty. */
  hint: string;
  since: string | null | undefined;
  href: string;
}

/** hintOf is what to do, as the control plane says it. */
export function hintOf(of: object | undefined): string {
  const hint = of && "hint" in of ? of.hint : undefined;
  return typeof hint === "string" ? hint : "";
}

const broken = new Set(["refused", "failed", "wedged", "unreachable"]);
const odd = new Set(["drifted", "held"]);

/** replicaTone says whether a replica is in trouble; undefined when it is not. */
export function replicaTrouble(r: Replica): Tone | undefined {
  if (!r.status) return undefined;
  if (broken.has(r.status.phase)) return "bad";
  if (odd.has(r.status.phase) || r.status.inputs?.readable === false) return "warn";
  return undefined;
}

/** clusterState is one word for a cluster: its own state, or that it is away or has a reason. */
export function clusterState(c: Cluster): string {
  if (c.state === "revoked" || c.state === "removing") return c.state;
  if (!c.alive) return "away";
  if (c.reason) return "trouble";
  return c.state;
}

/** troubles of federations and clusters, the worst first, then the newest. */
export const troubles = computed<Trouble[]>(() => {
  const found = [...federationList.value.flatMap(ofFederation), ...clusterList.value.flatMap(ofCluster)];
  const isCluster = (t: Trouble) => (t.key.startsWith("cluster ") ? 0 : 1);
  const rank: Record<Tone, number> = { bad: 0, warn: 1, busy: 2, idle: 3, ok: 4 };
  return found.sort((a, b) => rank[a.tone] - rank[b.tone] || isCluster(a) - isCluster(b) || (b.since ?? "").localeCompare(a.since ?? ""));
});

function ofFederation(f: Federation): Trouble[] {
  const href = to("federations", f.uid);
  const replicas = f.replicas.flatMap((r): Trouble[] => {
    const tone = replicaTrouble(r);
    // A cluster that is away is one trouble, however many services stand there.
    if (!tone || !r.status || (r.status.phase === "unreachable" && clusters.value.get(r.cluster_id)?.alive === false)) return [];
    const inputs = !broken.has(r.status.phase) && !odd.has(r.status.phase) ? r.status.inputs : undefined;
    return [{
      key: `${f.uid}/${r.cluster_id}/${r.service_name}`, tone, href, hint: hintOf(r.status),
      what: r.service_name,
      where: r.cluster_id,
      why: inputs ? inputs.message || inputs.reason || "its inputs cannot be read" : r.status.message || r.status.reason || r.status.phase,
      since: inputs ? inputs.at : r.status.last_transition_time,
    }];
  });
  const over: Record<string, [Tone, string]> = {
    aborted: ["bad", "its creation was refused"],
    rolled_back: ["bad", "its creation failed and was taken back"],
    rolling_back: ["warn", "its creation failed and is being taken back"],
    degraded: ["warn", "not every replica is ready"],
  };
  const [tone, text] = over[f.phase] ?? [];
  const explained = replicas.length > 0 || f.replicas.some((r) => r.status?.phase === "unreachable");
  if (!tone || !text || explained) return replicas;
  const cause = f.failed?.replicas.find((r) => r.cause);
  return [{
    key: f.uid, tone, href, hint: hintOf(f), what: name(f), where: cause?.cluster_id ?? f.coordinator.cluster_id,
    why: cause?.cause ? `${text}: ${cause.cause.message}` : text, since: f.changed_at,
  }];
}

function ofCluster(c: Cluster): Trouble[] {
  const state = clusterState(c);
  const href = to("clusters", c.cluster_id);
  const why = isFull(c) ? c.message || c.reason : c.reason;
  const trouble = (tone: Tone, text: string, since?: string | null): Trouble[] => [
    { key: `cluster ${c.cluster_id}`, tone, what: c.cluster_id, where: "", why: text, hint: hintOf(c), since, href },
  ];
  if (state === "revoked") return trouble("bad", isFull(c) && c.revoked ? c.revoked.message : "it has no rights in etcd any more", isFull(c) ? c.revoked?.at : null);
  if (state === "away") {
    const on = federationsOn.value.get(c.cluster_id)?.length ?? 0;
    const hit = on === 0 ? "" : `; ${plural(on, "service")} there ${on === 1 ? "goes" : "go"} on, and ${on === 1 ? "is" : "are"} not repaired or changed`;
    return trouble("bad", `Its syncer has no session${hit}.`, isFull(c) ? c.last_seen : null);
  }
  if (state === "trouble") return trouble("warn", why ?? "");
  if (state === "removing" && isFull(c) && c.removal?.blocked) return trouble("warn", `its removal waits: ${c.removal.waits ?? ""}`, c.removal.started_at);
  return [];
}
