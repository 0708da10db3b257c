import { query } from "../api/client";
import { usePoll } from "../api/poll";
import type { Job, Jobs as JobsPage, JobState } from "../api/types";
import { clusterList, federationList, name } from "../live/store";
import { count, plural } from "../parts/numbers";
import { Card, Empty, Failure, Loading, Page } from "../parts/parts";
import { Pager, useCursors } from "../parts/pager";
import { State, toneOf, words } from "../parts/state";
import { Ago } from "../parts/time";
import { refine, route, to } from "../route";
import { LastHour } from "./hour";

const pageSize = 50;
const groups: { label: string; states: JobState[] }[] = [
  { label: "Queued", states: ["queued"] },
  { label: "Under way", states: ["assigned", "claimed", "submitting", "submitted"] },
  { label: "Running", states: ["running"] },
  { label: "Uncertain", states: ["uncertain"] },
  { label: "Parked", states: ["parked"] },
  { label: "Succeeded", states: ["succeeded"] },
  { label: "Failed", states: ["failed", "vanished"] },
  { label: "Cancelled or returned", states: ["cancelled", "returned"] },
];

/** Jobs pages through jobs by cursors, so that 100,000 cost no more than 50. */
export function Jobs() {
  const q = route.value.query;
  const filters = {
    service: q.get("service") ?? "", cluster_id: q.get("cluster") ?? "", group_id: q.get("federation") ?? "",
    since: utc(q.get("since")), until: utc(q.get("until")),
  };
  const group = groups.find((g) => g.label === q.get("state"));
  const key = JSON.stringify([filters, group?.label]);
  const cursors = useCursors(key);
  const list = usePoll<JobsPage>(`/system/jobs${query({ ...filters, state: group?.states, limit: pageSize, cursor: cursors.at })}`, 4_000);
  const counted = usePoll<JobsPage>(`/system/jobs${query({ ...filters, counts: true, limit: 1 })}`, 4_000).data;
  const counts = counted && (counted.counts ?? {}); // which are left out when there are none
  const next = list.data?.next;
  const any = group || Object.values(filters).some(Boolean);
  return (
    <Page title="Jobs">
      {!any && <LastHour />}
      <div class="filters">
        <label class="search">
          <span class="hidden">Service</span>
          <input type="search" placeholder="Name of a service" value={filters.service} onChange={(e) => refine({ service: e.currentTarget.value.trim() })} />
        </label>
        <Pick label="Cluster" every="Every cluster" value={filters.cluster_id} options={clusterList.value.map((c) => [c.cluster_id, c.cluster_id])} pick={(v) => refine({ cluster: v })} />
        <Pick label="Federation" every="Every federation" value={filters.group_id} options={federationList.value.map((f) => [f.uid, name(f)])} pick={(v) => refine({ federation: v })} />
        <span class="moments">
          <Moment label="Accepted from" name="since" />
          <Moment label="until" name="until" />
        </span>
      </div>
      <ul class="chips" aria-label="States">
        {groups.map((g) => {
          const n = g.states.reduce((sum, s) => sum + (counts?.[s] ?? 0), 0);
          const on = group?.label === g.label;
          return (
            <li key={g.label}>
              <button type="button" class={`chip ${n > 0 ? toneOf(g.states[0] ?? "") : "idle"}`} aria-pressed={on} onClick={() => refine({ state: on ? undefined : g.label })}>
                {g.label} <strong>{counts ? count(n) : "–"}</strong>
              </button>
            </li>
          );
        })}
      </ul>
      <Card flush>
        {!list.data ? (list.error ? <Failure error={list.error} retry={list.reload} /> : <Loading what="jobs" />)
          : list.data.jobs.length === 0 ? (
            <Empty title={any ? "No job matches." : "There are no jobs yet."}>
              {!any && <><p>Send an event to a service of a federation:</p><pre class="command"><code>oscarfed job submit SERVICE -f event.json</code></pre></>}
            </Empty>
          ) : <Table jobs={list.data.jobs} />}
        <Pager cursors={cursors} next={next} />
      </Card>
    </Page>
  );
}

function Pick({ label, every, value, options, pick }: { label: string; every: string; value: string; options: [string, string][]; pick: (v: string | undefined) => void }) {
  return (
    <label class="pick">
      <span class="hidden">{label}</span>
      <select value={value} onChange={(e) => pick(e.currentTarget.value || undefined)}>
        <option value="">{every}</option>
        {value && !options.some(([v]) => v === value) && <option value={value}>{value}</option>}
        {options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
      </select>
    </label>
  );
}

/** utc is a time of the address as the API takes it; "" when it is none. */
function utc(text: string | null): string {
  const at = new Date(text ?? "");
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
}

/** Moment is a time in the reader's zone. The address has it in UTC, so that it means the same to another reader. */
function Moment({ label, name }: { label: string; name: string }) {
  const shown = utc(route.value.query.get(name));
  const local = shown && new Date(new Date(shown).getTime() - new Date(shown).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  return (
    <label class="moment">
      <span>{label}</span>
      <input type="datetime-local" value={local} onChange={(e) => refine({ [name]: utc(e.currentTarget.value) || undefined })} />
    </label>
  );
}

function Table({ jobs }: { jobs: Job[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Jobs">
      <table class="stack">
        <thead>
          <tr><th scope="col">Job</th><th scope="col">State</th><th scope="col">Came in at</th><th scope="col">Runs on</th><th scope="col">Why</th><th scope="col">Accepted</th></tr>
        </thead>
        <tbody>
          {jobs.map((j) => (
            <tr key={j.id}>
              <th scope="row"><a href={to("jobs", j.id)}><bdi>{j.service_name}</bdi></a><span class="block small muted mono">…{j.id.slice(-12)}</span></th>
              <td data-label="State"><State state={j.state} />{j.unreachable && <span class="block small muted">its cluster is away</span>}{j.cancelled && j.state !== "cancelled" && <span class="block small muted">being cancelled</span>}</td>
              <td data-label="Came in at"><bdi>{j.cluster_id}</bdi></td>
              <td data-label="Runs on">{j.place ? <bdi class={j.place.cluster_id !== j.cluster_id ? "moved" : ""}>{j.place.url || j.place.cluster_id}</bdi> : <span class="muted none">–</span>}</td>
              <td data-label="Why" class="text">{j.message || j.reason ? j.message || words(j.reason) : <span class="muted none">–</span>}</td>
              <td data-label="Accepted" class="nowrap"><Ago at={j.accepted_at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="hidden">{plural(jobs.length, "job")} on this page</p>
    </div>
  );
}
