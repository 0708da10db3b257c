import { address, services, type Federation } from "../api/types";
import { federations, name } from "../live/store";
import { replicaTrouble } from "../live/trouble";
import { count, plural } from "../parts/numbers";
import { Card } from "../parts/parts";
import { State } from "../parts/state";
import { to } from "../route";

/** Underway is what was sent: the federation, and its generation then. */
export interface Underway {
  uid: string;
  generation: number;
  what: "create" | "change";
}

/** isReady says whether a replica has what was sent. */
function isReady(f: Federation, generation: number): (r: Federation["replicas"][number]) => boolean {
  return (r) => r.status?.phase === "ready" && (f.generation > generation || r.status.observed_generation >= generation);
}

/** outcome says how far a federation has come with what was sent; undefined until there is word of it. */
function outcome(of: Underway): "failed" | "done" | "underway" | undefined {
  const f = federations.value.get(of.uid);
  if (!f) return undefined;
  if (f.phase === "aborted" || f.phase === "rolled_back" || f.phase === "rolling_back") return "failed";
  return f.phase === "ready" && services(f).every(isReady(f, of.generation)) ? "done" : "underway";
}

/** AllProgress shows what was sent together becoming ready, or being taken back. */
export function AllProgress({ of, again }: { of: Underway[]; again: () => void }) {
  const outcomes = of.map(outcome);
  const done = outcomes.filter((o) => o === "done").length;
  return (
    <>
      {of.length > 1 && (
        <p class={`note ${outcomes.includes("failed") ? "bad" : done === of.length ? "ok" : ""}`} role="status">
          {outcomes.includes("failed") ? `None of the ${count(of.length)} services stays: what one of them fails at is taken back for all.` : `${count(done)} of ${plural(of.length, "service")} ready`}
        </p>
      )}
      {of.map((one) => <Progress key={one.uid} of={one} again={again} />)}
    </>
  );
}

/** Progress shows the replicas becoming ready. */
function Progress({ of, again }: { of: Underway; again: () => void }) {
  const f = federations.value.get(of.uid);
  if (!f) return <Card title="Accepted"><p class="loading" role="status">Waiting for word of it …</p></Card>;
  const ours = services(f);
  const ready = ours.filter(isReady(f, of.generation)).length;
  const failed = outcome(of) === "failed";
  const done = outcome(of) === "done";
  const title = failed ? `${name(f)} was not created` : done ? `${name(f)} is ready` : `${name(f)} is being ${of.what === "create" ? "created" : "changed"}`;
  const causes = new Map((f.failed?.replicas ?? []).map((r) => [address(r), r]));
  return (
    <Card title={title} aside={<State state={f.phase} />} flush>
      <p class="pad" role="status">{failed ? f.phase === "rolling_back" ? "What was made of it is being taken back." : "Nothing of it stays." : `${count(ready)} of ${plural(ours.length, "replica")} ready`}</p>
      <ul class="rows">
        {ours.map((r) => {
          const cause = causes.get(address(r))?.cause;
          const behind = !failed && r.status?.phase === "ready" && !isReady(f, of.generation)(r);
          return (
            <li key={address(r)} class="row">
              <span class="row-main">
                <span class="row-title"><bdi>{r.cluster_id}</bdi></span>
                {cause ? <span class="row-text">{cause.message}</span> : (replicaTrouble(r) || r.status?.message) && !failed && <span class="row-text">{r.status?.message || r.status?.reason}</span>}
                {r.status?.hint && <span class="hint">{r.status.hint}</span>}
              </span>
              <State state={cause ? "failed" : behind ? "applying" : (r.status?.phase ?? "pending")} />
            </li>
          );
        })}
      </ul>
      {f.hint && !ours.some((r) => r.status?.hint) && <p class="pad"><span class="hint">{f.hint}</span></p>}
      <div class="dialog-foot pad">
        {failed ? <button type="button" class="button primary" onClick={again}>Change the definition</button> : <a class="button primary" href={to("federations", f.uid)}>Open the federation</a>}
      </div>
    </Card>
  );
}
