import { lazy } from "../parts/lazy";
import { useEffect, useRef, useState } from "preact/hooks";
import { query, read } from "../api/client";
import { usePoll } from "../api/poll";
import { address, type Federation, type Replica, type Stats } from "../api/types";
import { useHandovers, type Handover } from "../live/handovers";
import { federations, name } from "../live/store";
import { replicaTrouble } from "../live/trouble";
import { count, plural } from "../parts/numbers";
import { Card, Empty, Page, Tabs, useAction } from "../parts/parts";
import { State } from "../parts/state";
import { Ago } from "../parts/time";
import { to } from "../route";
import { at } from "./at";
import { Delete } from "./delete";
import { History } from "./history";
import { AddMembers, RemoveMember } from "./members";
import { Storage } from "./storage";

const Graph = lazy(async () => (await import("./graph")).Graph);

export function FederationView({ uid, tab }: { uid: string; tab: string }) {
  const f = federations.value.get(uid);
  if (!f) {
    return (
      <Page title="Federation" over={<a href={to("federations")}>Federations</a>}>
        <Card><Empty title="It is gone, or you may not see it."><a href={to("federations")}>All federations</a></Empty></Card>
      </Page>
    );
  }
  const tabs = [
    { name: "members", label: "Members", href: to("federations", uid) },
    { name: "definition", label: "Definition and history", href: to("federations", uid, "definition") },
  ];
  return (
    <Page title={name(f)} over={<a href={to("federations")}>Federations</a>} actions={<Actions f={f} />}>
      <Summary f={f} />
      <Tabs tabs={tabs} current={tab || "members"} />
      {tab === "definition" ? <History f={f} /> : <Members f={f} />}
    </Page>
  );
}

function Summary({ f }: { f: Federation }) {
  const cause = f.failed?.replicas.filter((r) => r.cause) ?? [];
  return (
    <>
      <div class="summary">
        <State state={f.phase} />
        <span>{plural(f.replicas.length, "member")}, {f.topology === "none" ? "no topology" : f.topology}</span>
        <span>Generation {count(f.generation)}</span>
        <span>{f.delegation} delegation</span>
        <span>Changed <Ago at={f.changed_at} /></span>
        {f.paused && <span class="tag">Paused</span>}
      </div>
      {(f.hint || cause.length > 0) && (
        <div class="note bad">
          {cause.map((r) => <p key={r.cluster_id + r.service_name}><strong><bdi>{r.cluster_id}</bdi></strong>: {r.cause?.message}</p>)}
          {f.hint && <p class="hint">{f.hint}</p>}
        </div>
      )}
    </>
  );
}

/** over are the phases in which nothing can be changed. */
const over = new Set(["aborted", "rolled_back", "rolling_back", "deleting"]);

function Actions({ f }: { f: Federation }) {
  const action = useAction();
  const [deleting, setDeleting] = useState(false);
  const pause = (paused: boolean) => action.run(async () => {
    await read(at(f, "/paused"), { method: "PUT", json: { paused } });
  });
  return (
    <>
      <button type="button" class={f.paused ? "button primary" : "button"} disabled={action.busy} onClick={() => pause(!f.paused)}>{f.paused ? "Resume" : "Pause"}</button>
      {!over.has(f.phase) && <a class="button" href={to("federations", f.uid, "change")}>Change …</a>}
      {f.phase !== "deleting" && <button type="button" class="button danger" onClick={() => setDeleting(true)}>Delete …</button>}
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      {deleting && <Delete f={f} close={() => setDeleting(false)} />}
    </>
  );
}

function Members({ f }: { f: Federation }) {
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Replica>();
  const open = !over.has(f.phase);
  const jobs = usePoll<Stats>(`/system/stats${query({ federation: f.uid })}`, 5_000).data?.edges ?? none;
  const handovers = useHandovers(f.uid);
  return (
    <>
      {f.replicas.length > 1 && <Card title="Who lists whom"><Graph f={f} jobs={jobs} just={handovers.just} /></Card>}
      <Card title={`${plural(f.replicas.length, "member")}`} aside={open && <button type="button" class="button small" onClick={() => setAdding(true)}>Add members …</button>} flush>
        <div class="scroll" tabIndex={0} role="region" aria-label="Members">
          <table class="stack">
            <thead>
              <tr><th scope="col" class="first">Cluster</th><th scope="col">State</th><th scope="col">Cause, and what to do</th><th scope="col">Lists</th><th scope="col">Jobs taken</th><th scope="col">Generation</th><th scope="col">Since</th>{open && <th scope="col"><span class="hidden">What can be done</span></th>}</tr>
            </thead>
            <tbody>{[...f.replicas].sort((a, b) => rank(a) - rank(b)).map((r) => <MemberRow key={address(r)} f={f} r={r} jobs={jobs} last={handovers.last.get(address(r))} remove={open ? () => setRemoving(r) : undefined} />)}</tbody>
          </table>
        </div>
        <Told just={handovers.just} />
      </Card>
      {f.leaving && f.leaving.length > 0 && (
        <Card title="Leaving" flush>
          <ul class="rows">
            {f.leaving.map((r) => (
              <li key={address(r)} class="row">
                <span class="row-main"><span class="row-title"><bdi>{r.cluster_id}</bdi></span><span class="row-text">{r.status?.message || "its deletion waits for the cluster"}</span></span>
              </li>
            ))}
          </ul>
        </Card>
      )}
      <Storage f={f} />
      {adding && <AddMembers f={f} close={() => setAdding(false)} />}
      {removing && <RemoveMember key={address(removing)} f={f} r={removing} close={() => setRemoving(undefined)} />}
    </>
  );
}

/** none are the jobs handed over until they are read. */
const none: Stats["edges"] = [];

/** rank puts members in trouble first. */
function rank(r: Replica): number {
  const tone = replicaTrouble(r);
  return tone === "bad" ? 0 : tone ? 1 : 2;
}

/** quiet is how long a screen reader is told nothing more of jobs, in milliseconds. */
const quiet = 5_000;

/** Told says to a screen reader what the graph shows moving: the first of what comes at once. */
function Told({ just }: { just: readonly Handover[] }) {
  const [text, setText] = useState("");
  const next = useRef(0);
  useEffect(() => {
    if (just.length === 0 || Date.now() < next.current) return;
    next.current = Date.now() + quiet;
    const more = just.length - 3;
    setText(just.slice(0, 3).map((h) => `${plural(h.jobs, "job")} handed from ${h.from} to ${h.to}`).join(", ") + (more > 0 ? `, and to ${plural(more, "more member")}` : ""));
  }, [just]);
  return <p class="hidden" role="status">{text}</p>;
}

function MemberRow({ f, r, jobs, last, remove }: { f: Federation; r: Replica; jobs: Stats["edges"]; last: Handover | undefined; remove: (() => void) | undefined }) {
  const self = address(r);
  const coordinator = self === address(f.coordinator);
  const lists = f.edges.filter(([from]) => from === self).length;
  const status = r.status;
  const behind = status && status.observed_generation !== 0 && status.observed_generation < f.generation;
  const inputs = status?.inputs?.readable === false ? status.inputs : undefined;
  return (
    <tr>
      <th scope="row">
        {r.type === "endpoint" ? <bdi>{r.url}</bdi> : <a href={to("clusters", r.cluster_id)}><bdi>{r.cluster_id}</bdi></a>}
        {coordinator && <>{" "}<span class="tag">Coordinator</span></>}
        {r.service_name !== f.coordinator.service_name && <span class="block small muted"><bdi>{r.service_name}</bdi></span>}
      </th>
      <td data-label="State">{r.type === "endpoint" ? <span class="muted">endpoint, not ours</span> : <State state={status?.phase ?? "pending"} />}</td>
      <td data-label="Cause" class="text">
        {replicaTrouble(r) || status?.message ? <span>{status?.message || status?.reason}</span> : !inputs && !status?.hint && <span class="muted none">–</span>}
        {inputs && <span class="block">{inputs.message || inputs.reason}</span>}
        {status?.hint && <span class="block hint">{status.hint}</span>}
      </td>
      <td data-label="Lists">{count(lists)}</td>
      <td data-label="Jobs taken">{count(jobs.filter((e) => e.to === self).reduce((sum, e) => sum + e.jobs, 0))}
        {last && <span class="block small muted">{count(last.jobs)} from <bdi>{last.from}</bdi> <Ago at={last.at.toISOString()} /></span>}
      </td>
      <td data-label="Generation" class="nowrap">{r.type === "endpoint" ? "–" : behind ? `${count(status.observed_generation)} of ${count(f.generation)}` : count(f.generation)}</td>
      <td data-label="Since" class="nowrap"><Ago at={status?.last_transition_time} /></td>
      {remove && <td class="end">{!coordinator && <button type="button" class="button small" aria-label={`Remove ${self}`} onClick={remove}>Remove …</button>}</td>}
    </tr>
  );
}
