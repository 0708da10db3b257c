import { batch } from "@preact/signals";
import { ApiError, message, query } from "../api/client";
import type { Bookmark, Change, Problem } from "../api/types";
import { apply, clear, connection, loaded } from "./store";
import { isHidden, stream } from "./sse";

/** gather is how long changes are collected before they are shown. */
const gather = 60;
const slowest = 10_000;

/** Reader is told what a stream tells. */
export interface Reader {
  /** take has changes, in their order; fresh ones replace all that was told before. */
  take: (changes: Change[], fresh: boolean) => void;
  /** live says that everything up to now was told. */
  live?: () => void;
  lost?: (why: string) => void;
}

/** follow keeps the store as the control plane tells it until stop. */
export async function follow(stop: AbortSignal): Promise<void> {
  await resume({ kind: ["federation", "cluster", "event"] }, {
    take: apply,
    live: () => {
      loaded.value = true;
      if (connection.value.state !== "live") connection.value = { state: "live" };
    },
    lost: (why) => {
      const before = connection.value;
      connection.value = { state: "lost", since: before.state === "lost" ? before.since : new Date(), why };
    },
  }, stop);
  clear();
}

/**
 * resume reads a stream until stop, or until the session has ended. A connection that is lost is
 * resumed at the last bookmark; when the server has forgotten that, everything is told again and
 * replaces what is there, so that there are no holes.
 */
export async function resume(what: Record<string, string | string[]>, reader: Reader, stop: AbortSignal): Promise<void> {
  let place: Bookmark | undefined;
  let wait = 500;
  while (!stop.aborted) {
    let why = "The connection ended.";
    try {
      const read = await once(what, reader, place, stop, (bookmark) => {
        place = bookmark;
        wait = 500;
      });
      if (read === "expired" && place) {
        place = undefined;
        continue;
      }
    } catch (err) {
      if (stop.aborted) break;
      if (err instanceof ApiError && err.status === 401) return;
      if (place && err instanceof ApiError && err.status === 410) {
        place = undefined;
        continue;
      }
      why = message(err);
      if (err instanceof ApiError) wait = Math.max(wait, err.retryAfter * 1000);
    }
    if (stop.aborted) break;
    if (isHidden()) continue; // it is no loss, and goes on when the tab is seen
    reader.lost?.(why);
    await pause(wait * (0.75 + Math.random() / 2), stop);
    wait = Math.min(wait * 2, slowest);
  }
}

/** once reads one connection to its end. */
async function once(what: Record<string, string | string[]>, reader: Reader, from: Bookmark | undefined, stop: AbortSignal, marked: (b: Bookmark) => void): Promise<"ended" | "expired"> {
  const path = `/system/watch${query({ ...what, epoch: from?.epoch })}`;
  const changes = new Gathered(reader, from === undefined);
  try {
    for await (const e of stream(path, from ? { "Last-Event-ID": String(from.revision) } : {}, stop)) {
      if (e.name === "change") changes.add(JSON.parse(e.data) as Change);
      else if (e.name === "bookmark") {
        changes.whole();
        marked(JSON.parse(e.data) as Bookmark);
      } else if (e.name === "end") {
        const problem = JSON.parse(e.data) as Problem;
        if (problem.code === "expired") return "expired";
        throw new ApiError(problem.status, problem.detail, problem, 0);
      }
    }
    return "ended";
  } finally {
    if (!stop.aborted) changes.flush();
  }
}

/** Gathered shows changes together, so that many at once are drawn once. */
class Gathered {
  private pending: Change[] = [];
  private timer = 0;

  /** The first state is shown when it was told whole. */
  constructor(private reader: Reader, private fresh: boolean) {}

  add(c: Change): void {
    this.pending.push(c);
    if (!this.fresh && this.timer === 0) this.timer = window.setTimeout(() => this.flush(), gather);
  }

  /** whole says that everything up to here was told. What is gathered since is shown in its time. */
  whole(): void {
    batch(() => {
      if (this.fresh) {
        this.reader.take(this.pending, true);
        this.pending = [];
        this.fresh = false;
      }
      this.reader.live?.();
    });
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.fresh) return; // half of a state is none
    if (this.pending.length > 0) this.reader.take(this.pending, false);
    this.pending = [];
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", end);
      window.removeEventListener("online", end);
      done();
    };
    const timer = setTimeout(end, ms);
    stop.addEventListener("abort", end);
    window.addEventListener("online", end);
  });
}
