import { ApiError, message, query, send, type Call } from "../api/client";
import type { Federation, Plan, Replicas } from "../api/types";
import { count, plural } from "../parts/numbers";
import type { Fdl, Message } from "./fdl";

/** Part is the plan of one service of the file. */
export interface Part {
  at: number;
  plan: Plan;
  body: Record<string, unknown>;
}

/** Planned is what is sent together, and what the control plane warns of in the definitions. */
export interface Planned {
  parts: [Part, ...Part[]];
  warnings: Message[];
  /** key lets the same request be sent again after a lost answer: it is done once. */
  key: string;
}

/** Refusal is what was wrong, with the lines that are. */
export interface Refusal {
  title: string;
  messages: Message[];
  /** changed says that what is there was changed by somebody else. */
  changed: boolean;
}

/** Refused is the error of definitions that were refused before anything was sent. */
export class Refused extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.title);
  }
}

/** askPlan asks what each of some definitions would do. What is wrong with any is told of all at once. */
export async function askPlan(fdl: Fdl, services: number[]): Promise<Planned> {
  const parts: Part[] = [];
  const warnings: Message[] = [];
  const refusals: Refusal[] = [];
  for (const at of services) {
    try {
      const file = fdl.scriptFile(at);
      if (file) throw new Error(`The script names the file ${file}, which is not here: take the file, or write the script.`);
      const body = fdl.service(at);
      const answer = await send("/system/plans", { method: "POST", json: body });
      parts.push({ at, plan: (await answer.json()) as Plan, body });
      warnings.push(...warningsOf(answer.headers.get("Warning") ?? "", fdl, at));
    } catch (err) {
      if (err instanceof ApiError && isLost(err)) throw err; // the others would fail, too
      const refusal = refusalOf(err, fdl, [at]);
      if (services.length > 1 && refusal.messages.length === 0) refusal.messages.push({ line: fdl.lineAt(at, ""), path: "", text: `${fdl.services[at] ?? ""}: ${refusal.title}`, of: at });
      refusals.push(refusal);
    }
  }
  const [first] = refusals;
  if (first) throw new Refused(services.length === 1 ? first : { title: `${plural(refusals.length, "service")} of ${count(services.length)} cannot be sent so`, messages: refusals.flatMap((r) => r.messages), changed: false });
  return { parts: parts as [Part, ...Part[]], warnings, key: newKey() };
}

/** Sent is a federation that was accepted, with its generation then. */
export interface Sent {
  uid: string;
  generation: number;
}

/**
 * submit creates or changes what was planned: exactly that, or nothing. Several are created all or
 * none. While no answer comes it sends the same request again; lost is told each time.
 */
export async function submit(p: Planned, lost: (why: string) => void, stop: AbortSignal): Promise<Sent[]> {
  const { path, ...call } = requestOf(p);
  for (let wait = 1000; ; wait = Math.min(2 * wait, 15_000)) {
    try {
      const answer = await send(path, { ...call, signal: stop });
      const made = (await answer.json()) as Replicas | Federation[];
      return Array.isArray(made) ? made : [made];
    } catch (err) {
      if (!isLost(err) || stop.aborted) throw err;
      lost(message(err));
      await pause(Math.max(wait, 1000 * (err instanceof ApiError ? err.retryAfter : 0)), stop);
    }
  }
}

function requestOf(p: Planned): Call & { path: string } {
  const headers: Record<string, string> = { "Idempotency-Key": p.key, Prefer: "respond-async, return=representation" };
  if (p.parts.length > 1) return { path: "/system/federations", method: "POST", headers, json: { services: p.parts.map((one) => one.body) } };
  const [{ plan, body }] = p.parts;
  headers["Oscarfed-Plan"] = plan.digest;
  if (plan.action !== "change") return { path: "/system/services", method: "POST", headers, json: body };
  headers["If-Match"] = `"${plan.revision}"`;
  return { path: `/system/services${query({ cluster_id: plan.coordinator.cluster_id })}`, method: "PUT", headers, json: body };
}

/**
 * isLost says whether a request may have been carried out without a word of it. An answer with a
 * phase is its outcome: the control plane keeps it, and gives the same again.
 */
function isLost(err: unknown): boolean {
  if (!(err instanceof ApiError)) return err instanceof TypeError; // an answer that broke off
  if (err.problem?.phase) return false;
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

/** refusalOf says of an error what is wrong, at the lines of the definitions that were sent. */
export function refusalOf(err: unknown, fdl: Fdl, services: number[]): Refusal {
  if (err instanceof Refused) return err.refusal;
  if (!(err instanceof ApiError)) return { title: message(err), messages: [], changed: false };
  const messages = (err.problem?.violations ?? []).map((v): Message => {
    const { of, path } = placeOf(v.path, services);
    return { line: fdl.lineAt(of, path), path, text: v.message, of };
  });
  const replicas = (err.problem?.replicas ?? []).filter((r) => r.cause).map((r): Message => {
    const of = services.find((at) => fdl.services[at] === r.service_name) ?? services[0] ?? 0;
    return { line: fdl.lineAt(of, ""), path: "", text: `${r.cluster_id}: ${r.cause?.message ?? ""}`, of };
  });
  const changed = err.status === 412 || (err.status === 409 && err.problem?.code === "conflict");
  return { title: messages.length > 0 ? (err.problem?.title ?? err.message) : err.message, messages: [...messages, ...replicas], changed };
}

/** placeOf takes apart the path of a violation: of several services it begins with services[1]. */
function placeOf(path: string, services: number[]): { of: number; path: string } {
  const named = services.length > 1 ? /^services\[(\d+)\]\.?(.*)$/s.exec(path) : null;
  if (named) return { of: services[Number(named[1])] ?? 0, path: named[2] ?? "" };
  return { of: services[0] ?? 0, path };
}

/** warningsOf reads Warning headers, which a browser joins: 299 oscarfed "key is not known ...". */
function warningsOf(header: string, fdl: Fdl, at: number): Message[] {
  return [...header.matchAll(/299 \S+ ("(?:[^"\\]|\\.)*")/g)].map((m) => {
    const text = unquote(m[1] ?? "");
    const path = text.split(" ", 1)[0] ?? "";
    return { line: fdl.lineAt(at, path), path, text, of: at };
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
