import type { Capacity } from "../api/types";
import { bytes, cores, count } from "../parts/numbers";
import { Bar } from "../parts/parts";

/** CapacityBars shows what is taken, promised and free of CPU and memory. */
export function CapacityBars({ of }: { of: Capacity | undefined }) {
  if (!of?.fresh) return <p class="muted small">{of?.message || "Its syncer has not said what is free; it gets no jobs."}</p>;
  return (
    <dl class="capacity">
      <Measure name="CPU" free={of.cpu.free} promised={of.cpu.promised} all={of.cpu.allocatable} show={(n) => cores(n)} unit="cores" />
      <Measure name="Memory" free={of.memory.free_bytes} promised={of.memory.promised_bytes} all={of.memory.allocatable_bytes} show={bytes} unit="" />
      {of.gpu.allocatable > 0 && <Measure name="GPU" free={of.gpu.free} promised={0} all={of.gpu.allocatable} show={count} unit="" />}
    </dl>
  );
}

function Measure({ name, free, promised, all, show, unit }: { name: string; free: number; promised: number; all: number; show: (n: number) => string; unit: string }) {
  const used = Math.max(0, all - free);
  const text = `${show(free)} free of ${show(all)}${unit && ` ${unit}`}${promised > 0 ? `, ${show(promised)} promised` : ""}`;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Bar whole={all} label={`${name}: ${text}`} parts={[{ value: used, kind: "used" }, { value: Math.min(promised, free), kind: "promised" }]} />
        <span class="small muted">{text}</span>
      </dd>
    </div>
  );
}
