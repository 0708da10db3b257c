import { services, type Federation } from "../api/types";
import { compare, federationList, name } from "../live/store";
import { replicaTrouble } from "../live/trouble";
import { count, plural } from "../parts/numbers";
import { Card, Empty, Page } from "../parts/parts";
import { rankOf, State, words } from "../parts/state";
import { Ago } from "../parts/time";
import { refine, route, to } from "../route";

const page = 100;
const phases = ["ready", "degraded", "preparing", "applying", "changing", "rolling_back", "rolled_back", "aborted", "deleting"];

export function Federations() {
  const query = route.value.query;
  const wanted = (query.get("search") ?? "").toLowerCase();
  const phase = query.get("phase") ?? "";
  const all = federationList.value;
  const found = all.filter((f) => (!phase || f.phase === phase) && matches(f, wanted));
  const limit = Math.max(page, Number(query.get("shown")) || 0);
  const shown = [...found].sort((a, b) => rankOf(a.phase) - rankOf(b.phase) || compare(name(a), name(b))).slice(0, limit);
  return (
    <Page title="Federations" actions={<a class="button primary" href={to("create")}>Create a service</a>}>
      {all.length > 0 && (
        <div class="filters">
          <label class="search">
            <span class="hidden">Search federations</span>
            <input type="search" placeholder="Name, cluster or owner" value={query.get("search") ?? ""} onInput={(e) => refine({ search: e.currentTarget.value, shown: undefined })} />
          </label>
          <label class="pick">
            <span class="hidden">Phase</span>
            <select value={phase} onChange={(e) => refine({ phase: e.currentTarget.value, shown: undefined })}>
              <option value="">Every phase</option>
              {phases.map((p) => <option key={p} value={p}>{words(p)}</option>)}
            </select>
          </label>
          <span class="muted" role="status">{found.length === all.length ? plural(all.length, "federation") : `${count(found.length)} of ${plural(all.length, "federation")}`}</span>
        </div>
      )}
      <Card flush>
        {all.length === 0 ? (
          <Empty title="There is no federation that you may see.">
            <p><a href={to("create")}>Create a service</a>, or apply a definition that you have:</p>
            <pre class="command"><code>oscarfed apply -f service.yaml</code></pre>
          </Empty>
        ) : found.length === 0 ? <Empty title="No federation matches." /> : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Federations">
            <table class="stack">
              <thead>
                <tr><th scope="col">Federation</th><th scope="col">State</th><th scope="col">Members</th><th scope="col">Shape</th><th scope="col">Generation</th><th scope="col">Changed</th></tr>
              </thead>
              <tbody>{shown.map((f) => <Row key={f.uid} f={f} />)}</tbody>
            </table>
          </div>
        )}
        {found.length > shown.length && (
          <p class="more"><button type="button" class="button small" onClick={() => refine({ shown: String(limit + page) })}>Show {count(Math.min(page, found.length - shown.length))} more</button></p>
        )}
      </Card>
    </Page>
  );
}

function matches(f: Federation, wanted: string): boolean {
  if (!wanted) return true;
  const text = [name(f), f.group_id, f.owner, ...f.replicas.map((r) => r.cluster_id)].join(" ").toLowerCase();
  return wanted.split(/\s+/).every((w) => text.includes(w));
}

function Row({ f }: { f: Federation }) {
  const ours = services(f);
  const ready = ours.filter((r) => r.status?.phase === "ready" && !replicaTrouble(r)).length;
  return (
    <tr>
      <th scope="row">
        <a href={to("federations", f.uid)}><bdi>{name(f)}</bdi></a>
        <span class="block small muted">on <bdi>{f.coordinator.cluster_id}</bdi></span>
      </th>
      <td data-label="State"><State state={f.phase} />{f.paused && <span class="block small muted">paused</span>}</td>
      <td data-label="Members" class="nowrap">{ready === ours.length ? count(ours.length) : `${count(ready)} of ${count(ours.length)} ready`}</td>
      <td data-label="Shape">{f.topology}</td>
      <td data-label="Generation">{count(f.generation)}</td>
      <td data-label="Changed" class="nowrap"><Ago at={f.changed_at} /></td>
    </tr>
  );
}
