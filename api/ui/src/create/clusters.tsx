import { useState } from "preact/hooks";
import { usePoll } from "../api/poll";
import type { Capacity, SystemStatus } from "../api/types";
import { clusterList } from "../live/store";
import { clusterState } from "../live/trouble";
import { bytes, cores, count, plural } from "../parts/numbers";
import { Bar } from "../parts/parts";
import { State } from "../parts/state";

/** mostShown is how many clusters are shown before somebody searches. */
const mostShown = 24;

interface Props {
  legend: string;
  chosen: ReadonlySet<string>;
  /** without are those that are not offered. */
  without: ReadonlySet<string>;
  toggle: (id: string, chosen: boolean) => void;
  error?: string | undefined;
}

/** ClusterPicker offers the clusters that the caller may see, with what they have free. */
export function ClusterPicker({ legend, chosen, without, toggle, error }: Props) {
  const status = usePoll<SystemStatus>("/system/status", 10_000);
  const capacity = new Map(status.data?.clusters.map((c) => [c.cluster_id, c]));
  const [search, setSearch] = useState("");
  const all = clusterList.value.filter((c) => !without.has(c.cluster_id));
  const unknown = [...chosen].filter((id) => !all.some((c) => c.cluster_id === id) && !without.has(id));
  const wanted = search.toLowerCase();
  const found = all.filter((c) => `${c.cluster_id} ${Object.entries(c.labels).map(([k, v]) => `${k}=${v}`).join(" ")}`.toLowerCase().includes(wanted));
  const shown = [...found].sort((a, b) => Number(chosen.has(b.cluster_id)) - Number(chosen.has(a.cluster_id))).slice(0, mostShown);
  return (
    <fieldset class="picker" aria-describedby={error ? "members-error" : undefined}>
      <legend>{legend}</legend>
      {all.length > mostShown && <input type="search" aria-label="Search clusters" placeholder="Name or label" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />}
      {all.length === 0 && unknown.length === 0 && <p class="muted">There is no other cluster that lets you in.</p>}
      <ul class="picks">
        {shown.map((c) => {
          const state = clusterState(c);
          return (
            <li key={c.cluster_id}>
              <label class="check">
                <input type="checkbox" checked={chosen.has(c.cluster_id)} onChange={(e) => toggle(c.cluster_id, e.currentTarget.checked)} />
                <span class="pick-main">
                  <span class="pick-name"><bdi>{c.cluster_id}</bdi> {state !== "active" && <State state={state} />}</span>
                  <Free of={capacity.get(c.cluster_id)} known={status.data !== undefined} />
                </span>
              </label>
            </li>
          );
        })}
        {unknown.map((id) => (
          <li key={id}><label class="check"><input type="checkbox" checked onChange={() => toggle(id, false)} /><span class="pick-main"><span class="pick-name"><bdi>{id}</bdi></span><span class="small muted">not a cluster that you may see</span></span></label></li>
        ))}
      </ul>
      {found.length > shown.length && <p class="small muted">{plural(found.length - shown.length, "more cluster")}; search for {found.length - shown.length === 1 ? "it" : "them"}.</p>}
      {error && <p class="field-error" id="members-error">{error}</p>}
    </fieldset>
  );
}

/** Free is one line of what a cluster has free. */
function Free({ of, known }: { of: Capacity | undefined; known: boolean }) {
  if (!known) return <span class="small muted">&nbsp;</span>;
  if (!of?.fresh) return <span class="small muted">{of?.message || "what is free is not known"}</span>;
  const gpu = of.gpu.allocatable > 0 ? `, ${count(of.gpu.free)} of ${count(of.gpu.allocatable)} GPU` : "";
  const text = `${cores(of.cpu.free)} of ${cores(of.cpu.allocatable)} cores, ${bytes(of.memory.free_bytes)} of ${bytes(of.memory.allocatable_bytes)}${gpu} free`;
  return (
    <>
      <Bar whole={of.cpu.allocatable} label={`CPU: ${text}`} parts={[{ value: of.cpu.allocatable - of.cpu.free, kind: "used" }, { value: Math.min(of.cpu.promised, of.cpu.free), kind: "promised" }]} />
      <span class="small muted">{text}</span>
    </>
  );
}
