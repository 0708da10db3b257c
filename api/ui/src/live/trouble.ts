import { computed } from "@preact/signals";
import { isFull, services, type Cluster, type Federation, type Replica, type SystemEvent } from "../api/types";
import { to } from "../route";
import { toneOf, words, type Tone } from "../parts/state";
import { clusterList, clusters, federationList, federations, latest, name } from "./store";

/** Entry is one thing that a person is told, in the words of the control plane. */
export interface Entry {
  key: string;
  tone: Tone;
  what: string;
  where: string;
  why: string;
  /** hint is what to do. */
  hint?: string | undefined;
  since: string | null | undefined;
  href: string;
}

function troubled(tone: Tone): boolean {
  return tone === "bad" || tone === "warn";
}

/** replicaTrouble says whether a replica is in trouble; undefined when it is not. */
export function replicaTrouble(r: Replica): Tone | undefined {
  const tone = toneOf(r.status?.phase ?? "");
  if (troubled(tone)) return tone;
  return r.status?.inputs?.readable === false ? "warn" : undefined;
}

/** clusterState is one word for a cluster: its own state, or that it is away or has a reason. */
export function clusterState(c: Cluster): string {
  if (c.state === "revoked" || c.state === "removing") return c.state;
  if (!c.alive) return "away";
  if (c.reason) return "trouble";
  return c.state;
}

/** clusterCause is what the control plane says of the state of a cluster, and since when that is. */
export function clusterCause(c: Cluster): { message: string; since: string | null | undefined } {
  if (!isFull(c)) return { message: c.reason ?? "", since: undefined };
  if (c.revoked) return { message: c.revoked.message, since: c.revoked.at };
  if (c.removal) return { message: c.removal.waits ?? "", since: c.removal.started_at };
  return { message: c.message || c.reason || "", since: c.alive ? undefined : c.last_seen };
}

/** troubles are the worst first, in these clusters (which have no other place) first, then the newest. */
export const troubles = computed<Entry[]>(() => {
  const found = [...clusterList.value.flatMap(ofCluster), ...federationList.value.flatMap(ofFederation)];
  const rank = (t: Entry) => (t.tone === "bad" ? 0 : 2) + (t.where === "" ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b) || (b.since ?? "").localeCompare(a.since ?? ""));
});

function ofFederation(f: Federation): Entry[] {
  const href = to("federations", f.uid);
  const inTrouble = services(f).filter(replicaTrouble);
  if (inTrouble.length === 0 && troubled(toneOf(f.phase))) {
    const failed = f.failed?.replicas.find((r) => r.cause);
    return [{
      key: f.uid, tone: toneOf(f.phase), href, hint: f.hint, what: name(f), where: failed?.cluster_id ?? f.coordinator.cluster_id,
      why: [words(f.phase), failed?.cause?.message].filter(Boolean).join(": "), since: f.changed_at,
    }];
  }
  return inTrouble.flatMap((r): Entry[] => {
    // A cluster that is away is one trouble, however many services stand there.
    if (!r.status || (r.status.phase === "unreachable" && clusters.value.get(r.cluster_id)?.alive === false)) return [];
    const inputs = troubled(toneOf(r.status.phase)) ? undefined : r.status.inputs;
    return [{
      key: `${f.uid}/${r.cluster_id}/${r.service_name}`, tone: replicaTrouble(r) ?? "warn", href, hint: r.status.hint,
      what: r.service_name,
      where: r.cluster_id,
      why: (inputs ?? r.status).message || (inputs ?? r.status).reason || words(r.status.phase),
      since: inputs ? inputs.at : r.status.last_transition_time,
    }];
  });
}

function ofCluster(c: Cluster): Entry[] {
  const state = clusterState(c);
  const blocked = isFull(c) && c.removal?.blocked === true;
  if (!troubled(toneOf(state)) && !blocked) return [];
  const { message, since } = clusterCause(c);
  return [{
    key: `cluster ${c.cluster_id}`, tone: blocked ? "warn" : toneOf(state), what: c.cluster_id, where: "",
    why: message || words(state), hint: c.hint, since, href: to("clusters", c.cluster_id),
  }];
}

/** lastEvents are what has happened lately, the newest first. */
export const lastEvents = computed<Entry[]>(() => latest.value.map(ofEvent));

function ofEvent(e: SystemEvent): Entry {
  const f = e.federation ? federations.value.get(e.federation) : undefined;
  const cluster = e.cluster_id ?? "";
  const service = e.service_name || (f ? name(f) : e.group_id);
  return {
    key: e.id, tone: e.severity === "warning" ? "warn" : "idle", what: service || cluster || e.reason, where: service ? cluster : "",
    why: e.message, since: e.at,
    href: e.job ? to("jobs", e.job) : f ? to("federations", f.uid) : cluster ? to("clusters", cluster) : to(),
  };
}
