import { hasEnded, type Job } from "../api/types";
import { Mark, toneOf, words, type Tone } from "../parts/state";
import { clock, duration, full } from "../parts/time";

interface Step {
  at: string;
  title: string;
  text: string;
  tone: Tone;
}

/**
 * Timeline is what is known of a job, oldest first, with the time between. The clock of an OSCAR
 * may be another one, and has whole seconds: times do not decide the order.
 */
export function Timeline({ job }: { job: Job }) {
  const steps = stepsOf(job);
  return (
    <ol class="timeline">
      {steps.map((s, i) => {
        const before = steps[i - 1];
        const gap = before ? new Date(s.at).getTime() - new Date(before.at).getTime() : 0;
        return (
          <li key={`${s.title}${s.at}${i}`}>
            <Mark tone={s.tone} />
            <div>
              <p class="timeline-head"><strong>{s.title}</strong> <time dateTime={s.at} title={full(s.at)} class="muted small">{clock(s.at)}</time>{i > 0 && gap > 0 && <span class="muted small">after {duration(gap)}</span>}</p>
              {s.text && <p class="muted">{s.text}</p>}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

function stepsOf(job: Job): Step[] {
  const steps: Step[] = [{ at: job.accepted_at, title: "Accepted", text: `came in at ${job.cluster_id}`, tone: "ok" }];
  for (const a of job.attempts) {
    steps.push({
      at: a.ended_at, title: `Attempt ${a.attempt} ${words(a.state)}`, tone: "bad",
      text: [`on ${a.place}`, a.message || a.reason, a.pod && `${a.pod.reason} ${a.pod.message ?? ""}`].filter(Boolean).join(": "),
    });
  }
  const where = job.place ? `on ${job.place.url || job.place.cluster_id}` : "";
  // After an attempt that has ended, the time of sending is that attempt's.
  const last = job.attempts.at(-1);
  if (job.submitted_at && (!last || job.submitted_at > last.ended_at)) steps.push({ at: job.submitted_at, title: "Sent to OSCAR", text: where, tone: "ok" });
  if (job.started_at) steps.push({ at: job.started_at, title: "Started", text: "", tone: "ok" });
  const end = hasEnded(job);
  steps.push({ at: end ? (job.ended_at ?? job.changed_at) : job.changed_at, title: sentence(job.state), text: job.message || (job.state === "queued" ? "waits for a member" : end || job.submitted_at ? "" : where), tone: toneOf(job.state) });
  return steps;
}

function sentence(state: string): string {
  const text = words(state);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
