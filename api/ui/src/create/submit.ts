import { ApiError, message, query, send } from "../api/client";
import type { Plan, Replicas } from "../api/types";
import type { Fdl, Message } from "./fdl";

/** Planned is a plan, and what the control plane warns of in the definition. */
export interface Planned {
  plan: Plan;
  warnings: Message[];
  body: Record<string, unknown>;
  /** key lets the same request be sent again after a lost answer: it is done once. */
  key: string;
}

/** Refusal is what was wrong, with the lines that are. */
export interface Refusal {
  title: string;
  messages: Message[];
  /** since says that what is there was changed by somebody else. */
  changed: boolean;
}

/** askPlan asks what a definition would do. */
export async function askPlan(fdl: Fdl, at: number): Promise<Planned> {
  const body = fdl.service(at);
  const answer = await send("/system/plans", { method: "POST", json: body });
  return { plan: (await answer.json()) as Plan, warnings: warningsOf(answer.headers.get("Warning") ?? "", fdl, at), body, key: newKey() };
}

/**
 * submit creates or changes what was planned: exactly that, or nothing. While no answer comes it
 * sends the same request again; lost is told each time.
 */
export async function submit(p: Planned, lost: (why: string) => void, stop: AbortSignal): Promise<Replicas> {
  const change = p.plan.action === "change";
  const path = `/system/services${change ? query({ cluster_id: p.plan.coordinator.cluster_id }) : ""}`;
  const headers: Record<string, string> = { "Idempotency-Key": p.key, "Oscarfed-Plan": p.plan.digest, Prefer: "respond-async, return=representation" };
  if (change) headers["If-Match"] = `"${p.plan.revision}"`;
  for (let wait = 1000; ; wait = Math.min(2 * wait, 15_000)) {
    try {
      const answer = await send(path, { method: change ? "PUT" : "POST", headers, json: p.body, signal: stop });
      return (await answer.json()) as Replicas;
    } catch (err) {
      if (!isLost(err) || stop.aborted) throw err;
      lost(message(err));
      await pause(Math.max(wait, 1000 * (err instanceof ApiError ? err.retryAfter : 0)), stop);
    }
  }
}

/** isLost says whether a request may have been carried out without a word of it. */
function isLost(err: unknown): boolean {
  if (!(err instanceof ApiError)) return err instanceof TypeError; // an answer that broke off
  return err.status === 0 || err.status === 429 || err.status === 502 || err.status === 503 || err.status === 504;
}

/** pause waits, in milliseconds, or until it is stopped. */
function pause(wait: number, stop: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const timer = window.setTimeout(done, wait);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      fail(new Error("It was sent, and its answer was not waited for. See whether it is in the list of federations."));
    }, { once: true });
  });
}

/** refusalOf says of an error what is wrong, at the lines of the definition. */
export function refusalOf(err: unknown, fdl: Fdl, at: number): Refusal {
  if (!(err instanceof ApiError)) return { title: message(err), messages: [], changed: false };
  const messages = (err.problem?.violations ?? []).map((v): Message => ({ line: fdl.lineAt(at, v.path), path: v.path, text: v.message }));
  const replicas = (err.problem?.replicas ?? []).filter((r) => r.cause).map((r): Message => ({
    line: fdl.lineAt(at, ""), path: "", text: `${r.cluster_id}: ${r.cause?.message ?? ""}`,
  }));
  const changed = err.status === 412 || (err.status === 409 && err.problem?.code === "conflict");
  return { title: messages.length > 0 ? (err.problem?.title ?? err.message) : err.message, messages: [...messages, ...replicas], changed };
}

/** warningsOf reads Warning headers, which a browser joins: 299 oscarfed "key is not known ...". */
function warningsOf(header: string, fdl: Fdl, at: number): Message[] {
  return [...header.matchAll(/299 \S+ ("(?:[^"\\]|\\.)*")/g)].map((m) => {
    const text = unquote(m[1] ?? "");
    const path = text.split(" ", 1)[0] ?? "";
    return { line: fdl.lineAt(at, path), path, text };
  });
}

function unquote(quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    return quoted.slice(1, -1); // an escape that JSON does not have
  }
}

/** newKey is a key that nobody else has; randomUUID is not there without TLS. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}
