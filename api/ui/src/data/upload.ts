import { bytes } from "../parts/numbers";
import type { Link } from "./objects";

/** mostBytes is how much of a file is held in memory while it is sent. */
const mostBytes = 1 << 30;

/** Told is what the frame tells of an upload. */
export type Told = { sent: number } | { done: number } | { failed: true };

/**
 * upload sends a file to a MinIO from a frame that has nothing of this page: its origin is opaque,
 * it knows no credentials, and its policy lets it reach that one server. This page may reach none.
 */
export async function upload(link: Link, file: File, progress: (sent: number) => void, stop: AbortSignal): Promise<void> {
  if (file.size > mostBytes) throw new Error(`It is larger than ${bytes(mostBytes)}, the most that a page can send. Use oscar-cli.`);
  // The frame is a process of its own, which may not read this machine's files.
  const content = await file.arrayBuffer();
  stop.throwIfAborted(); // no event tells what happened before somebody listens
  const frame = document.createElement("iframe");
  frame.hidden = true;
  frame.title = "Upload";
  frame.setAttribute("sandbox", "allow-scripts");
  frame.src = `/ui/upload.html?to=${encodeURIComponent(link.url.origin)}`;
  await new Promise<void>((done, fail) => {
    const { port1, port2 } = new MessageChannel();
    stop.addEventListener("abort", () => fail(stop.reason), { once: true });
    port1.onmessage = (e: MessageEvent<Told>) => {
      const told = e.data;
      if ("sent" in told) progress(told.sent);
      else if ("failed" in told) fail(new Error(`The browser did not reach ${link.url.host}, or may not write there. The server has to be reachable from here, and its CORS has to allow every origin (MinIO does unless it is told otherwise).`));
      else if (told.done >= 200 && told.done < 300) done();
      else fail(new Error(`${link.url.host} answered with status ${told.done}.`));
    };
    frame.addEventListener("error", () => fail(new Error("The upload could not begin.")), { once: true });
    frame.addEventListener("load", () => {
      // The target's origin is opaque, so that it has no name but *; the frame is our own.
      frame.contentWindow?.postMessage({ url: link.url.href, headers: link.headers, content }, "*", [port2, content]);
    }, { once: true });
    document.body.append(frame);
  }).finally(() => frame.remove());
}
