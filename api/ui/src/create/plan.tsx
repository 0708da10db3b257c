import type { Plan, PlanField } from "../api/types";
import { count, plural } from "../parts/numbers";
import { Card } from "../parts/parts";
import { duration } from "../parts/time";

const actions: Record<string, string> = { create: "Create", update: "Change", remove: "Remove", none: "Leave as it is" };

/** PlanView says what is written where, and why. */
export function PlanView({ plan }: { plan: Plan }) {
  const moved = plan.topology.edges_added.length + plan.topology.edges_removed.length;
  const changed = plan.secrets.filter((s) => s.change !== "unchanged");
  return (
    <>
      <ul class="rows plan" aria-label="What is written where">
        {plan.replicas.map((r) => (
          <li key={`${r.cluster_id}/${r.service_name}`} class="row">
            <span class="row-main">
              <span class="row-title"><bdi>{r.cluster_id}</bdi>{r.service_name !== plan.coordinator.service_name && <span class="muted"> as <bdi>{r.service_name}</bdi></span>}{r.cluster_id === plan.coordinator.cluster_id && r.service_name === plan.coordinator.service_name && <>{" "}<span class="tag">Coordinator</span></>}</span>
              <span class="row-text">{[...r.reasons, r.votes && "its cluster is asked first", r.delay_s > 0 && `its cluster has ${duration(1000 * r.delay_s)} of writes before it`].filter(Boolean).join("; ")}</span>
              {(r.buckets_left ?? []).length > 0 && <span class="row-text">Buckets of an earlier life that it attaches to: {r.buckets_left?.join(", ")}</span>}
            </span>
            <span class={`state ${r.action === "remove" ? "bad" : r.action === "none" ? "idle" : "busy"}`}>{actions[r.action] ?? r.action}</span>
          </li>
        ))}
      </ul>
      {plan.warnings.length > 0 && (
        <div class="note warn">{plan.warnings.map((w, i) => <p key={i}>{w.cluster_id && <strong><bdi>{w.cluster_id}</bdi>: </strong>}{w.message}</p>)}</div>
      )}
      {plan.fields.length > 0 && plan.action === "change" && (
        <dl class="facts plan-fields pad">{plan.fields.map((f) => <Field key={f.path} f={f} />)}</dl>
      )}
      <p class="muted pad">
        {moved > 0 && `${plural(plan.topology.edges_added.length, "list entry", "list entries")} added, ${count(plan.topology.edges_removed.length)} removed (${plan.topology.after}). `}
        {plan.action === "create" && (plan.deployment === "transactional" ? "Everywhere or nowhere: what one cluster refuses is taken back on all. " : "Where it is possible now, and elsewhere later. ")}
        {changed.length > 0 && `Secrets: ${changed.map((s) => `${s.path} ${s.change}`).join(", ")}.`}
      </p>
    </>
  );
}

function Field({ f }: { f: PlanField }) {
  return (
    <>
      <dt><code>{f.path}</code></dt>
      <dd class="break"><del>{shown(f.before)}</del> → <ins>{shown(f.after)}</ins></dd>
    </>
  );
}

/** shown is a value of a plan; a long one is told by its size. */
function shown(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (typeof value === "object" && "bytes" in value && "lines" in value) return `${plural(Number(value.lines), "line")}`;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** PlanCard is a plan with what can be done with it. */
export function PlanCard({ plan, title, children }: { plan: Plan; title: string; children?: preact.ComponentChildren }) {
  return (
    <Card title={title} aside={plan.action === "create" ? "generation 1" : `generation ${count(plan.next_generation)}`} flush>
      <PlanView plan={plan} />
      {children}
    </Card>
  );
}
