import { useState } from "preact/hooks";
import { query, send } from "../api/client";
import { usePoll } from "../api/poll";
import { isFull, services, type Cluster, type FullCluster, type SystemStatus } from "../api/types";
import { clusters, federationsOn, name } from "../live/store";
import { clusterCause, clusterState, replicaTrouble } from "../live/trouble";
import { Card, Dialog, Empty, Page, useAction } from "../parts/parts";
import { State, toneOf } from "../parts/state";
import { Ago, duration } from "../parts/time";
import { to } from "../route";
import { CapacityBars } from "./capacity";

export function ClusterView({ id }: { id: string }) {
  const c = clusters.value.get(id);
  const status = usePoll<SystemStatus>("/system/status", 10_000);
  if (!c) {
    return (
      <Page title={id} over={<a href={to("clusters")}>Clusters</a>}>
        <Card><Empty title="There is no such cluster that you may see."><a href={to("clusters")}>All clusters</a></Empty></Card>
      </Page>
    );
  }
  const capacity = status.data?.clusters.find((one) => one.cluster_id === id);
  return (
    <Page title={id} over={<a href={to("clusters")}>Clusters</a>} actions={isFull(c) && <Actions c={c} />}>
      <Why c={c} />
      <div class="columns">
        <div class="wide"><Services id={id} /></div>
        <div class="narrow">
          <Card title="Capacity">{status.data ? <CapacityBars of={capacity} /> : <div class="capacity-space" />}</Card>
          <Facts c={c} />
        </div>
      </div>
    </Page>
  );
}

function Why({ c }: { c: Cluster }) {
  const state = clusterState(c);
  if (state === "active") return null;
  const { message, since } = clusterCause(c);
  return (
    <div class={`note ${toneOf(state)}`}>
      <p><State state={state} /> {since && <Ago at={since} />}</p>
      {state === "cordoned" && <p>Nothing new is placed here. What stands here is kept as desired.</p>}
      {state === "paused" && <p>Nothing is written to its OSCAR until it is resumed.</p>}
      {message && <p>{message}</p>}
      {c.hint && <p class="hint">{c.hint}</p>}
    </div>
  );
}

function Facts({ c }: { c: Cluster }) {
  const full = isFull(c) ? c : undefined;
  const labels = Object.entries(c.labels);
  return (
    <Card title="About">
      <dl class="facts">
        <dt>State</dt><dd><State state={clusterState(c)} /></dd>
        <dt>OSCAR</dt><dd>{c.oscar_version || "not known"}</dd>
        {full && (
          <>
            <dt>Address</dt><dd class="break">{full.endpoint}</dd>
            <dt>Seen</dt><dd>{full.alive ? "now" : <Ago at={full.last_seen} />}</dd>
            <dt>Write queue</dt><dd>{full.queue_s > 0 ? duration(full.queue_s * 1000) : "empty"}</dd>
            <dt>Registered</dt><dd><Ago at={full.registered_at} /></dd>
            {full.joined && <><dt>Certificate until</dt><dd><Ago at={full.joined.valid_until} /></dd></>}
            <dt>Lets in</dt><dd>{full.allowed_groups.length > 0 ? full.allowed_groups.join(", ") : "everybody who is let in here"}</dd>
          </>
        )}
        {labels.length > 0 && <><dt>Labels</dt><dd><ul class="labels">{labels.map(([k, v]) => <li key={k}>{k}={v}</li>)}</ul></dd></>}
      </dl>
    </Card>
  );
}

function Services({ id }: { id: string }) {
  const rows = (federationsOn.value.get(id) ?? []).flatMap((f) => services(f).filter((r) => r.cluster_id === id).map((r) => ({ f, r })));
  return (
    <Card title="Services here" flush>
      {rows.length === 0 ? <Empty title="No service of a federation stands here." /> : (
        <div class="scroll">
          <table>
            <thead><tr><th scope="col">Service</th><th scope="col">State</th><th scope="col">Why</th><th scope="col">Since</th></tr></thead>
            <tbody>
              {rows.map(({ f, r }) => (
                <tr key={`${f.uid}/${r.service_name}`}>
                  <th scope="row"><a href={to("federations", f.uid)}><bdi>{r.service_name}</bdi></a>{name(f) !== r.service_name && <span class="muted"> of {name(f)}</span>}</th>
                  <td><State state={r.status?.phase ?? "pending"} /></td>
                  <td class="text">{replicaTrouble(r) ? r.status?.message || r.status?.reason : <span class="muted">–</span>}</td>
                  <td class="nowrap"><Ago at={r.status?.last_transition_time} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** Actions are the administrator's. The stream shows what comes of them. */
function Actions({ c }: { c: FullCluster }) {
  const [removing, setRemoving] = useState(false);
  const action = useAction();
  const path = `/system/clusters/${encodeURIComponent(c.cluster_id)}`;
  const set = (state: string) => action.run(async () => {
    await send(`${path}/state`, { method: "PUT", json: { state } });
  });
  return (
    <>
      {c.state === "active" && <button type="button" class="button" disabled={action.busy} onClick={() => set("cordoned")}>Cordon</button>}
      {c.state === "active" && <button type="button" class="button" disabled={action.busy} onClick={() => set("paused")}>Pause</button>}
      {(c.state === "cordoned" || c.state === "paused") && <button type="button" class="button primary" disabled={action.busy} onClick={() => set("active")}>Resume</button>}
      {c.state !== "removing" && <button type="button" class="button danger" onClick={() => setRemoving(true)}>Remove …</button>}
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      {removing && <Remove id={c.cluster_id} path={path} close={() => setRemoving(false)} />}
    </>
  );
}

function Remove({ id, path, close }: { id: string; path: string; close: () => void }) {
  const [orphan, setOrphan] = useState(false);
  const [force, setForce] = useState(false);
  const action = useAction();
  const on = federationsOn.value.get(id) ?? [];
  const remove = () => action.run(async () => {
    await send(path + query({ orphan, force }), { method: "DELETE" });
    close();
  });
  const coordinated = on.filter((f) => f.coordinator.cluster_id === id);
  return (
    <Dialog title={`Remove ${id}`} close={close}>
      <p>{on.length === 0 ? "No service of a federation stands here." : `${on.length} ${on.length === 1 ? "federation goes" : "federations go"} on without it; its services here are deleted, and their data is kept.`}</p>
      {coordinated.length > 0 && <p class="note warn">It coordinates {coordinated.map(name).join(", ")}: without force this is refused, and with it they are deleted.</p>}
      <label class="check"><input type="checkbox" checked={orphan} onChange={(e) => setOrphan(e.currentTarget.checked)} /> Leave the services standing, without our marks</label>
      <label class="check"><input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} /> Force: do not wait for the cluster</label>
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>Keep it</button>
        <button type="button" class="button danger" disabled={action.busy} onClick={remove}>Remove the cluster</button>
      </div>
    </Dialog>
  );
}
