import type { ComponentChildren } from "preact";
import { query } from "../api/client";
import { usePoll } from "../api/poll";
import type { Info, Jobs } from "../api/types";
import { LastHour } from "../jobs/hour";
import { clusterList, federationList, federationsOn } from "../live/store";
import { clusterState, lastEvents, troubles, type Entry } from "../live/trouble";
import { bytes, count, plural } from "../parts/numbers";
import { Card, Empty, Page } from "../parts/parts";
import { Mark, toneOf, type Tone } from "../parts/state";
import { Ago } from "../parts/time";
import { to } from "../route";

const shownTroubles = 50;
const shownClusters = 60;
const shownEvents = 10;

export function Overview() {
  return (
    <Page title="Overview">
      <Numbers />
      <div class="columns">
        <div class="wide">
          <Attention />
          <LastHour />
          <LastEvents />
        </div>
        <div class="narrow"><Fleet /></div>
      </div>
    </Page>
  );
}

function Numbers() {
  const info = usePoll<Info>("/system/info", 15_000);
  const jobs = usePoll<Jobs>(`/system/jobs${query({ counts: true, limit: 1 })}`, 5_000);
  const cs = clusterList.value;
  const fs = federationList.value;
  const alive = cs.filter((c) => c.alive).length;
  const ready = fs.filter((f) => f.phase === "ready").length;
  const counts = jobs.data?.counts ?? {};
  const n = (...states: string[]) => states.reduce((sum, s) => sum + (counts[s] ?? 0), 0);
  const known = jobs.data !== undefined;
  const etcd = info.data?.etcd;
  return (
    <section class="numbers" aria-label="Numbers that matter">
      <Number label="Clusters alive" value={count(alive)} of={count(cs.length)} tone={alive < cs.length ? "bad" : "ok"} href={to("clusters")} />
      <Number label="Federations ready" value={count(ready)} of={count(fs.length)} tone={ready < fs.length ? "warn" : "ok"} href={to("federations")} />
      <Number label="Jobs queued" value={known ? count(n("queued")) : "–"} tone="idle" href={to("jobs")} />
      <Number label="Jobs under way" value={known ? count(n("assigned", "claimed", "submitting", "submitted", "running")) : "–"} tone="idle" note={known ? `${count(n("running"))} running` : undefined} href={to("jobs")} />
      <Number label="Uncertain or parked" value={known ? count(n("uncertain", "parked")) : "–"} tone={n("uncertain", "parked") > 0 ? "warn" : "ok"} href={`${to("jobs")}?state=${n("uncertain") > 0 ? "Uncertain" : "Parked"}`} />
      {etcd && (
        <Number label="Space in etcd" value={etcd.quota_bytes > 0 ? percent(etcd.in_use_bytes / etcd.quota_bytes) : bytes(etcd.in_use_bytes)}
          tone={etcd.space === "ok" ? "ok" : etcd.space === "unknown" ? "warn" : "bad"}
          note={etcd.advice || (etcd.quota_bytes > 0 ? `${bytes(etcd.in_use_bytes)} of ${bytes(etcd.quota_bytes)}` : undefined)} />
      )}
    </section>
  );
}

function percent(part: number): string {
  return new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: part < 0.1 ? 1 : 0 }).format(part);
}

function Number({ label, value, of, tone, note, href }: { label: string; value: string; of?: string; tone: Tone; note?: string | undefined; href?: string }) {
  const body: ComponentChildren = (
    <>
      <span class="number-label">{label}</span>
      <span class="number-value">
        <span>{value}{of !== undefined && <span class="number-of"> / {of}</span>}</span>
        {(tone === "bad" || tone === "warn") && <Mark tone={tone} />}
      </span>
      <span class="number-note">{note ?? "\u00a0"}</span>
    </>
  );
  return href ? <a class={`number ${tone}`} href={href}>{body}</a> : <div class={`number ${tone}`}>{body}</div>;
}

/** Attention is what is wrong: what, where, since when, and why. */
function Attention() {
  const all = troubles.value;
  if (clusterList.value.length === 0 && federationList.value.length === 0) return <Begin />;
  return (
    <Card title="Needs attention" aside={all.length > 0 ? plural(all.length, "thing") : undefined} flush>
      {all.length === 0 ? (
        <div class="allwell"><Mark tone="ok" /><p>Nothing is wrong. All federations are ready or on their way, and all clusters answer.</p></div>
      ) : (
        <Entries of={all.slice(0, shownTroubles)} />
      )}
      {all.length > shownTroubles && <p class="more muted">and {plural(all.length - shownTroubles, "more", "more")}</p>}
    </Card>
  );
}

function Entries({ of }: { of: Entry[] }) {
  return (
    <ul class="rows">
      {of.map((e) => (
        <li key={e.key}>
          <a class="row" href={e.href}>
            <Mark tone={e.tone} />
            <span class="row-main">
              <span class="row-title"><bdi>{e.what}</bdi>{e.where && <> <span class="muted">on</span> <bdi>{e.where}</bdi></>}</span>
              <span class="row-text">{e.why}</span>
              {e.hint && <span class="hint">{e.hint}</span>}
            </span>
            <span class="row-side"><Ago at={e.since} /></span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Begin() {
  return (
    <Card>
      <Empty title="There is nothing yet.">
        <p>A cluster joins with this command, run beside its OSCAR:</p>
        <pre class="command"><code>oscarfed cluster join oscar-cluster-a https://oscar-a.example.org</code></pre>
        <p>You see the clusters that let you in, and the federations that you may read.</p>
      </Empty>
    </Card>
  );
}

function Fleet() {
  const all = clusterList.value;
  if (all.length === 0) return null;
  return (
    <Card title="Clusters" aside={<a href={to("clusters")}>All {count(all.length)}</a>}>
      <ul class="tiles">
        {all.slice(0, shownClusters).map((c) => {
          const state = clusterState(c);
          const on = federationsOn.value.get(c.cluster_id)?.length ?? 0;
          return (
            <li key={c.cluster_id}>
              <a class={`tile ${toneOf(state)}`} href={to("clusters", c.cluster_id)}>
                <span class="tile-name"><Mark tone={toneOf(state)} /><bdi>{c.cluster_id}</bdi></span>
                <span class="muted small">{state === "active" ? plural(on, "service") : state}</span>
              </a>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

/** LastEvents are what the control plane has seen happen, the newest first. */
function LastEvents() {
  const events = lastEvents.value.slice(0, shownEvents);
  return events.length > 0 ? <Card title="Last events" flush><Entries of={events} /></Card> : null;
}
