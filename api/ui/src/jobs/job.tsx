import { useEffect, useState } from "preact/hooks";
import { ApiError, message, read } from "../api/client";
import { usePoll } from "../api/poll";
import { hasEnded, type Job, type JobDecision, type JobExplanation, type Problem } from "../api/types";
import { stream } from "../live/sse";
import { bytes, count } from "../parts/numbers";
import { Card, Dialog, Empty, Failure, Loading, Page, useAction } from "../parts/parts";
import { State, toneOf } from "../parts/state";
import { Ago, full } from "../parts/time";
import { to } from "../route";
import { Log } from "./log";
import { Timeline } from "./timeline";

export function JobView({ id }: { id: string }) {
  const { job, error } = useJob(id);
  const over = <a href={to("jobs")}>Jobs</a>;
  if (!job) {
    return <Page title="Job" over={over}>{error ? <Failure error={error} /> : <Loading what="the job" />}</Page>;
  }
  return (
    <Page title={`Job of ${job.service_name}`} over={over} actions={<Actions job={job} />}>
      <div class="summary">
        <State state={job.state} />
        <code class="break">{job.id}</code>
        <span>Accepted <Ago at={job.accepted_at} /></span>
        <span>{bytes(job.size)}</span>
      </div>
      <Why job={job} />
      <div class="columns">
        <div class="wide">
          <Card title="Timeline"><Timeline job={job} /></Card>
          <Log job={job} />
        </div>
        <div class="narrow">
          <Decisions job={job} />
          <Facts job={job} />
        </div>
      </div>
    </Page>
  );
}

/** useJob follows one job; a connection that ends is made anew. */
function useJob(id: string): { job: Job | undefined; error: string } {
  const [job, setJob] = useState<Job>();
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const follow = async () => {
      while (!stop.signal.aborted) {
        try {
          for await (const e of stream(`/system/jobs/${encodeURIComponent(id)}?watch=true`, {}, stop.signal)) {
            if (e.name === "job") {
              setJob(JSON.parse(e.data) as Job);
              setError("");
            } else if (e.name === "end") {
              setError((JSON.parse(e.data) as Problem).detail);
              return;
            }
          }
        } catch (err) {
          if (stop.signal.aborted) return;
          if (err instanceof ApiError && err.status >= 400 && err.status < 500 && err.status !== 429) {
            setError(message(err));
            return;
          }
        }
        await new Promise((done) => setTimeout(done, 2000));
      }
    };
    void follow();
    return () => stop.abort();
  }, [id]);
  return { job: job?.id === id ? job : undefined, error };
}

function Why({ job }: { job: Job }) {
  const text = job.message || job.reason;
  if (!text && !job.hint && !job.unreachable && !job.pod) return null;
  const tone = job.unreachable ? "warn" : toneOf(job.state);
  return (
    <div class={`note ${tone}`}>
      {text && <p>{text}</p>}
      {job.pod && <p><strong>{job.pod.reason}</strong> {job.pod.message}{job.pod.exit_code !== undefined && ` (exit code ${job.pod.exit_code})`}</p>}
      {job.unreachable && <p>Its cluster is away: this is the last state that it reported.</p>}
      {job.hint && <p class="hint">{job.hint}</p>}
    </div>
  );
}

function Facts({ job }: { job: Job }) {
  return (
    <Card title="About">
      <dl class="facts">
        <dt>Federation</dt><dd><a href={to("federations", job.federation)}><bdi>{job.group_id}</bdi></a></dd>
        <dt>Came in at</dt><dd><a href={to("clusters", job.cluster_id)}><bdi>{job.cluster_id}</bdi></a>{job.offered && " as a Job of its OSCAR"}</dd>
        {job.place && <><dt>{hasEnded(job) ? "Ran on" : "Runs on"}</dt><dd><bdi>{job.place.url || job.place.cluster_id}</bdi>{job.place.job_name && <span class="block small muted mono break">{job.place.job_name}</span>}</dd></>}
        <dt>Attempt</dt><dd>{job.attempt === 0 ? "none yet" : count(job.attempt)}</dd>
        {job.by && <><dt>Sent by</dt><dd class="break"><bdi>{job.by}</bdi></dd></>}
        {job.not_before && <><dt>Next attempt</dt><dd><Ago at={job.not_before} /></dd></>}
        {job.cancelled && <><dt>Cancelled by</dt><dd class="break"><bdi>{job.cancelled_by || "its owner"}</bdi></dd></>}
      </dl>
    </Card>
  );
}

/** Decisions explains the last choice, member by member. */
function Decisions({ job }: { job: Job }) {
  const why = usePoll<JobExplanation>(`/system/jobs/${encodeURIComponent(job.id)}/explain`, 0);
  const [shown, setShown] = useState(0);
  useEffect(() => {
    why.reload();
    setShown(0);
  }, [job.attempt, job.state === "queued"]);
  const all = why.data?.decisions ?? [];
  const d = all[shown];
  return (
    <Card title="Why there" aside={all.length > 1 && (
      <label class="pick">
        <span class="hidden">Decision</span>
        <select value={String(shown)} onChange={(e) => setShown(Number(e.currentTarget.value))}>
          {all.map((one, i) => <option key={i} value={String(i)}>{one.now ? "Now" : `Attempt ${count(one.attempt)}`}</option>)}
        </select>
      </label>
    )}>
      {why.error && !why.data ? <Failure error={why.error} retry={why.reload} /> : !why.data ? <Loading what="the decision" /> : !d ? <Empty title="No choice was made yet." /> : <Decision d={d} />}
    </Card>
  );
}

const score = new Intl.NumberFormat(undefined, { maximumFractionDigits: 3 });

function Decision({ d }: { d: JobDecision }) {
  const best = Math.max(0, ...d.members.map((m) => m.score ?? 0));
  const rank = new Map(d.order.map((p, i) => [p, i]));
  const members = [...d.members].sort((a, b) => (rank.get(a.place) ?? 1e6) - (rank.get(b.place) ?? 1e6));
  return (
    <>
      <p class="muted small">{d.now ? "What would be chosen at this moment" : <>Chosen <Ago at={d.at} /></>} by the policy {d.policy}.</p>
      <ol class="verdicts">
        {members.slice(0, 40).map((m) => (
          <li key={m.place} class={m.place === d.chosen ? "chosen" : ""}>
            <span class="verdict-head">
              <bdi>{m.place.split("/")[0]}</bdi>
              {m.place === d.chosen && <span class="tag">Chosen</span>}
              {m.score !== undefined && <span class="num small">{score.format(m.score)}</span>}
            </span>
            {m.score !== undefined && best > 0 && <span class="bar thin" aria-hidden="true"><span class="used" style={{ width: `${Math.max(0, (100 * m.score) / best)}%` }} /></span>}
            <span class="small muted">{m.message || m.why}</span>
          </li>
        ))}
      </ol>
      {members.length > 40 && <p class="muted small">and {count(members.length - 40)} more members</p>}
    </>
  );
}

function Actions({ job }: { job: Job }) {
  const action = useAction();
  const [resolving, setResolving] = useState(false);
  const path = `/system/jobs/${encodeURIComponent(job.id)}`;
  const order = (what: string) => action.run(async () => {
    await read<Job>(`${path}/${what}`, { method: "POST", json: {} });
  });
  return (
    <>
      {job.state === "uncertain" && <button type="button" class="button primary" onClick={() => setResolving(true)}>Resolve …</button>}
      {(job.state === "parked" || job.state === "failed" || job.held) && <button type="button" class="button primary" disabled={action.busy} onClick={() => order("replay")}>Replay</button>}
      {!hasEnded(job) && !job.cancelled && <button type="button" class="button danger" disabled={action.busy} onClick={() => order("cancel")}>Cancel the job</button>}
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      {resolving && <Resolve job={job} path={path} close={() => setResolving(false)} />}
    </>
  );
}

function Resolve({ job, path, close }: { job: Job; path: string; close: () => void }) {
  const action = useAction();
  const say = (state: "submitted" | "vanished") => action.run(async () => {
    await read<Job>(`${path}/resolve`, { method: "POST", json: { state } });
    close();
  });
  return (
    <Dialog title="What became of this job?" close={close}>
      <p>OSCAR on <bdi>{job.place?.cluster_id}</bdi> may have it or not. Look there for the Job <code class="break">{job.place?.job_name}</code>{job.submitted_at && <>, which was sent at {full(job.submitted_at)}</>}.</p>
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>Leave it</button>
        <button type="button" class="button" disabled={action.busy} onClick={() => say("vanished")}>It is not there and will not come</button>
        <button type="button" class="button primary" disabled={action.busy} onClick={() => say("submitted")}>It is there</button>
      </div>
    </Dialog>
  );
}
