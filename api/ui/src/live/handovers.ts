import { useEffect, useState } from "preact/hooks";
import { address, type Change, type Job } from "../api/types";
import { resume } from "./stream";

/** Handover is how many jobs went from where they came in to another member, all told at one time. */
export interface Handover {
  from: string;
  to: string;
  jobs: number;
  at: Date;
}

export interface Handovers {
  /** just are those that were told together at last. */
  just: readonly Handover[];
  /** last has, for a member, the last one to it. */
  last: ReadonlyMap<string, Handover>;
}

/** atFirst is how many jobs a stream begins with at most; it may leave out others. */
const atFirst = 1000;
/** mostJobs is of how many jobs the attempt is kept. */
const mostJobs = 10_000;

const none: Handovers = { just: [], last: new Map() };

/** useHandovers follows the jobs of a federation, and says which are handed over while one looks. */
export function useHandovers(uid: string): Handovers {
  const [shown, show] = useState(none);
  useEffect(() => {
    const stop = new AbortController();
    const seen = new Seen();
    show(none);
    void resume({ kind: "job", federation: uid }, {
      take: (changes, fresh) => {
        const just = seen.take(changes, fresh);
        if (just.length > 0) show((s) => ({ just, last: new Map([...s.last, ...just.map((h): [string, Handover] => [h.to, h])]) }));
      },
    }, stop.signal);
    return () => stop.abort();
  }, [uid]);
  return shown;
}

/** Seen knows the attempts that were told. */
class Seen {
  private attempts = new Map<string, number>();
  /** all says that every other job is a new one; else one that was accepted after newest is. */
  private all = true;
  private newest = "";

  /** take gives what was handed over; fresh changes are what there was before one looked. */
  take(changes: Change[], fresh: boolean): Handover[] {
    if (fresh) {
      this.attempts.clear();
      this.newest = "";
      this.all = changes.length < atFirst;
    }
    const moved = new Map<string, Handover>();
    const at = new Date();
    for (const { job } of changes) {
      if (!job) continue;
      const edge = this.note(job);
      if (!edge || fresh) continue;
      const key = edge.join("\n");
      const sum = moved.get(key) ?? { from: edge[0], to: edge[1], jobs: 0, at };
      sum.jobs++;
      moved.set(key, sum);
    }
    return [...moved.values()];
  }

  /** note takes a job in, and gives the edge of an attempt that was not told before. */
  private note(job: Job): [string, string] | undefined {
    const before = this.attempts.get(job.id) ?? (this.all || job.accepted_at > this.newest ? 0 : job.attempt);
    this.attempts.delete(job.id); // the last told are kept longest
    this.attempts.set(job.id, job.attempt);
    if (job.accepted_at > this.newest) this.newest = job.accepted_at;
    if (this.attempts.size > mostJobs) {
      this.all = false;
      for (const oldest of this.attempts.keys()) {
        this.attempts.delete(oldest);
        break;
      }
    }
    const from = `${job.cluster_id}/${job.service_name}`;
    if (job.attempt <= before || !job.place || address(job.place) === from) return undefined;
    return [from, address(job.place)];
  }
}
