import { useState } from "preact/hooks";
import { usePoll } from "../api/poll";
import { isFull, type Capacity, type Cluster, type SystemStatus } from "../api/types";
import { clusterList, federationsOn } from "../live/store";
import { clusterCause, clusterState } from "../live/trouble";
import { count, plural } from "../parts/numbers";
import { Card, Empty, Page } from "../parts/parts";
import { State } from "../parts/state";
import { Ago, duration } from "../parts/time";
import { refine, route, to } from "../route";
import { administrator } from "../session/session";
import { CapacityBars } from "./capacity";
import { Join } from "./join";

export function Clusters() {
  const status = usePoll<SystemStatus>("/system/status", 10_000);
  const capacity = new Map(status.data?.clusters.map((c) => [c.cluster_id, c]));
  const [joining, setJoining] = useState(false);
  const wanted = (route.value.query.get("search") ?? "").toLowerCase();
  const all = clusterList.value;
  const shown = all.filter((c) => matches(c, wanted));
  return (
    <Page title="Clusters" actions={administrator.value && <button type="button" class="button primary" onClick={() => setJoining(true)}>Join a cluster</button>}>
      {all.length > 6 && (
        <div class="filters">
          <label class="search">
            <span class="hidden">Search clusters</span>
            <input type="search" placeholder="Name, state or label" value={route.value.query.get("search") ?? ""} onInput={(e) => refine({ search: e.currentTarget.value })} />
          </label>
          <span class="muted" role="status">{shown.length === all.length ? plural(all.length, "cluster") : `${count(shown.length)} of ${plural(all.length, "cluster")}`}</span>
        </div>
      )}
      {all.length === 0 && (
        <Card><Empty title="No cluster lets you in yet.">An administrator joins clusters, and each says which groups it lets in.</Empty></Card>
      )}
      {all.length > 0 && shown.length === 0 && <Card><Empty title="No cluster matches." /></Card>}
      <ul class="cards">
        {shown.map((c) => <ClusterCard key={c.cluster_id} c={c} capacity={capacity.get(c.cluster_id)} known={status.data !== undefined} />)}
      </ul>
      {joining && <Join close={() => setJoining(false)} />}
    </Page>
  );
}

function matches(c: Cluster, wanted: string): boolean {
  if (!wanted) return true;
  const text = [c.cluster_id, clusterState(c), ...Object.entries(c.labels).map(([k, v]) => `${k}=${v}`)].join(" ").toLowerCase();
  return wanted.split(/\s+/).every((w) => text.includes(w));
}

function ClusterCard({ c, capacity, known }: { c: Cluster; capacity: Capacity | undefined; known: boolean }) {
  const { message, since } = clusterCause(c);
  const on = federationsOn.value.get(c.cluster_id)?.length ?? 0;
  const labels = Object.entries(c.labels);
  return (
    <li class="card cluster">
      <header class="cluster-head">
        <h2><a href={to("clusters", c.cluster_id)}><bdi>{c.cluster_id}</bdi></a></h2>
        <span><State state={clusterState(c)} /> {since && <span class="small muted"><Ago at={since} /></span>}</span>
      </header>
      {(message || c.hint) && <p class="why">{message || c.hint}</p>}
      {known ? c.alive && <CapacityBars of={capacity} /> : <div class="capacity-space" />}
      {labels.length > 0 && <ul class="labels">{labels.map(([k, v]) => <li key={k}>{k}={v}</li>)}</ul>}
      <p class="cluster-foot muted small">
        {[plural(on, "service"), c.oscar_version && `OSCAR ${c.oscar_version}`, isFull(c) && c.queue_s > 0 && `write queue ${duration(c.queue_s * 1000)}`].filter(Boolean).join(" · ")}
      </p>
    </li>
  );
}
