import { usePoll } from "../api/poll";
import type { Stats } from "../api/types";
import { count } from "../parts/numbers";
import { Card } from "../parts/parts";
import { Plot } from "../parts/plot";
import { duration } from "../parts/time";

/** LastHour is what the jobs of the caller did lately; nothing until the first step is over. */
export function LastHour() {
  const s = usePoll<Stats>("/system/stats", 10_000).data?.series;
  if (!s) return null;
  const step = s.step_seconds;
  return (
    <Card title="The last hour">
      <div class="plots">
        <Plot title="Jobs" stepSeconds={step} show={count} lines={[{ label: "queued", tone: "warn", values: s.queued }, { label: "running", tone: "busy", values: s.running }]} />
        <Plot title={`Ended in ${count(step)} s`} stepSeconds={step} show={count} lines={[{ label: "succeeded", tone: "ok", values: s.succeeded }, { label: "failed", tone: "bad", values: s.failed }]} />
        <Plot title="From accepted to started" stepSeconds={step} show={(n) => duration(n * 1000)} lines={[{ label: "mean", tone: "busy", values: s.wait_seconds }]} />
      </div>
    </Card>
  );
}
