import type { Problem } from "./types";
import { authorization, sessionEnded } from "../session/session";

/** ApiError is an answer that is an error; problem says what to do where the server does. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly problem: Problem | undefined,
    readonly retryAfter: number,
  ) {
    super(message);
  }
}

export interface Call {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  headers?: Record<string, string>;
  /** json is sent as the body. */
  json?: unknown;
  body?: string;
  signal?: AbortSignal;
}

/** patience is how long an answer to a read may take to begin, in milliseconds: it is asked again. */
const patience = 60_000;

/**
 * send asks the API. It never lets the browser add credentials of its own, and so the browser
 * never asks for any either.
 */
export async function send(path: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json, application/problem+json", ...call.headers };
  const credentials = await authorization();
  if (credentials) headers.Authorization = credentials;
  let body = call.body;
  if (call.json !== undefined) {
    body = JSON.stringify(call.json);
    headers["Content-Type"] = "application/json";
  }
  const late = new AbortController();
  const timer = headers.Accept === "text/event-stream" || (call.method ?? "GET") !== "GET" ? 0 : window.setTimeout(() => late.abort(), patience);
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: call.method ?? "GET",
      headers,
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.any([late.signal, ...(call.signal ? [call.signal] : [])]),
    });
  } catch (err) {
    if (call.signal?.aborted) throw err;
    throw new ApiError(0, "The control plane does not answer.", undefined, 0);
  } finally {
    clearTimeout(timer);
  }
  if (!answer.ok) throw await failure(answer);
  return answer;
}

/** read gives the JSON of an answer. The type is that of openapi.yaml, to which tests hold the server. */
export async function read<T>(path: string, call: Call = {}): Promise<T> {
  const answer = await send(path, call);
  return (await answer.json()) as T;
}

async function failure(answer: Response): Promise<ApiError> {
  const retryAfter = Number(answer.headers.get("Retry-After") ?? 0) || 0;
  const text = await answer.text();
  let problem: Problem | undefined;
  if ((answer.headers.get("Content-Type") ?? "").includes("json")) {
    try {
      problem = JSON.parse(text) as Problem;
    } catch {
      // A proxy's answer: its status is all that there is.
    }
  }
  if (answer.status === 401) sessionEnded();
  const message = problem?.detail || (problem ? problem.title : text.slice(0, 300)) || `The control plane answered ${answer.status}.`;
  return new ApiError(answer.status, message, problem, retryAfter);
}

/** query makes a query string, without empty values. */
export function query(values: Record<string, string | string[] | number | boolean | undefined>): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === "" || value === false) continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) q.append(name, one);
  }
  const text = q.toString();
  return text ? `?${text}` : "";
}

/** message is what a person is told of an error. */
export function message(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}
