/** ServerEvent is one event of a stream of server-sent events. */
export interface ServerEvent {
  name: string;
  id: string;
  data: string;
}

/**
 * events reads a stream as the HTML standard says, in which a line may end with CR, LF or both.
 * onData is called for each piece that arrives, comments included.
 */
export async function* events(body: ReadableStream<Uint8Array>, onData: () => void): AsyncGenerator<ServerEvent> {
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
