import { send } from "../api/client";

/** silence is longer than two of the server's pings: a connection that says nothing is dead. */
const silence = 40_000;

/** ServerEvent is one event of a stream of server-sent events. */
export interface ServerEvent {
  name: string;
  id: string;
  data: string;
}

/** isHidden says whether nobody looks at this tab. */
export function isHidden(): boolean {
  return document.visibilityState === "hidden";
}

/** seen waits until somebody looks at this tab, or until stop. */
function seen(stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const ask = () => {
      if (isHidden() && !stop.aborted) return;
      document.removeEventListener("visibilitychange", ask);
      stop.removeEventListener("abort", ask);
      done();
    };
    document.addEventListener("visibilitychange", ask);
    stop.addEventListener("abort", ask);
    ask();
  });
}

/**
 * stream asks for server-sent events, and gives them until the connection ends. It begins when the
 * tab is seen and ends when that is hidden: without HTTP/2 a browser has six connections to a host
 * for all of its tabs, and none would be left for requests.
 */
export async function* stream(path: string, headers: Record<string, string>, stop: AbortSignal): AsyncGenerator<ServerEvent> {
  await seen(stop);
  const dead = new AbortController();
  const hidden = new AbortController();
  const hide = () => isHidden() && hidden.abort();
  document.addEventListener("visibilitychange", hide);
  let watchdog = 0;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = window.setTimeout(() => dead.abort(), silence);
  };
  try {
    alive();
    const answer = await send(path, { headers: { Accept: "text/event-stream", ...headers }, signal: AbortSignal.any([stop, dead.signal, hidden.signal]) });
    if (answer.body) yield* events(answer.body, alive);
  } catch (err) {
    if (hidden.signal.aborted) return;
    if (dead.signal.aborted) throw new Error("The control plane has said nothing for 40 s.");
    throw err;
  } finally {
    clearTimeout(watchdog);
    document.removeEventListener("visibilitychange", hide);
  }
}

/**
 * events reads a stream as the HTML standard says, in which a line may end with CR, LF or both.
 * onData is called for each piece that arrives, comments included.
 */
async function* events(body: ReadableStream<Uint8Array>, onData: () => void): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let event: ServerEvent = { name: "", id: "", data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // what has no empty line at its end is not an event
      onData();
      rest += decoder.decode(value, { stream: true });
      // A CR at the end may be half of a CRLF.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (event.data !== "") yield event;
          event = { name: "", id: "", data: "" };
          continue;
        }
        const at = line.indexOf(":");
        if (at === 0) continue;
        const name = at < 0 ? line : line.slice(0, at);
        const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
        if (name === "event") event.name = text;
        else if (name === "id") event.id = text;
        else if (name === "data") event.data += event.data === "" ? text : `\n${text}`;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
