import { computed, signal } from "@preact/signals";
import { services, type Change, type Cluster, type Federation, type SystemEvent } from "../api/types";

/** What the caller may see, as the stream has told it. Nothing else is kept. */
export const federations = signal<ReadonlyMap<string, Federation>>(new Map());
export const clusters = signal<ReadonlyMap<string, Cluster>>(new Map());

/** latest are the last events, the newest first. */
export const latest = signal<readonly SystemEvent[]>([]);

/** mostEvents is how many events are kept: as many as a stream begins with. */
const mostEvents = 100;

/** loaded says that the first state was told whole. */
export const loaded = signal(false);

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; since: Date; why: string };

export const connection = signal<Connection>({ state: "connecting" });

export const clusterList = computed(() => [...clusters.value.values()].sort((a, b) => compare(a.cluster_id, b.cluster_id)));
export const federationList = computed(() =>
  [...federations.value.values()].sort((a, b) => compare(name(a), name(b)) || compare(a.uid, b.uid)),
);

/** membersOn are the federations with a member on each cluster. */
export const federationsOn = computed(() => {
  const on = new Map<string, Federation[]>();
  for (const f of federationList.value) {
    for (const id of new Set(services(f).map((r) => r.cluster_id))) {
      const list = on.get(id);
      if (list) list.push(f);
      else on.set(id, [f]);
    }
  }
  return on;
});

/** name is what people call a federation: its coordinator's service. */
export function name(f: Federation): string {
  return f.coordinator.service_name;
}

const collator = new Intl.Collator(undefined, { numeric: true });

export function compare(a: string, b: string): number {
  return collator.compare(a, b);
}

/** apply takes changes in; fresh ones replace all that was told before. */
export function apply(changes: Change[], fresh: boolean): void {
  if (changes.length === 0 && !fresh) return;
  const fs = new Map(fresh ? [] : federations.value);
  const cs = new Map(fresh ? [] : clusters.value);
  const es = new Map(fresh ? [] : latest.value.toReversed().map((e) => [e.id, e]));
  let ofFederations = fresh;
  let ofClusters = fresh;
  let ofEvents = fresh;
  for (const c of changes) {
    if (c.kind === "federation") {
      ofFederations = true;
      if (c.federation && !c.deleted) fs.set(c.name, c.federation);
      else fs.delete(c.name);
    } else if (c.kind === "cluster") {
      ofClusters = true;
      if (c.cluster && !c.deleted) cs.set(c.name, c.cluster);
      else cs.delete(c.name);
    } else if (c.kind === "event" && c.event) {
      ofEvents = true;
      es.set(c.name, c.event);
    }
  }
  if (ofFederations) federations.value = fs;
  if (ofClusters) clusters.value = cs;
  if (ofEvents) latest.value = [...es.values()].slice(-mostEvents).reverse();
}

/** clear forgets everything: somebody else may log in next. */
export function clear(): void {
  federations.value = new Map();
  clusters.value = new Map();
  latest.value = [];
  loaded.value = false;
  connection.value = { state: "connecting" };
}
