import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, message } from "../api/client";
import { useRepeated } from "../api/poll";
import { bytes } from "../parts/numbers";
import { Card, Empty, Failure, Loading, Page, useAction } from "../parts/parts";
import { to } from "../route";
import { outOfReach, presign, readObjects, type ObjectPage } from "./objects";
import { upload } from "./upload";

type Entry = NonNullable<ObjectPage["objects"]>[number];

/** BucketView lists a bucket, page by page, with upload and download. */
export function BucketView({ cluster, bucket }: { cluster: string; bucket: string }) {
  const [pages, setPages] = useState<string[]>([]); // the marks that lead to the present page
  const [state, setState] = useState<{ page?: ObjectPage; of?: string; error?: string }>({}); // of is the mark of the page
  const [round, setRound] = useState(0);
  const mark = pages.at(-1) ?? "";
  useRepeated(async (stop) => {
    try {
      const page = await readObjects(cluster, bucket, mark, stop);
      if (!stop.aborted) setState({ page, of: mark });
    } catch (err) {
      if (stop.aborted) return;
      const unkind = err instanceof ApiError && err.status === 500 && err.message.includes("NoSuchBucket");
      setState((s) => ({ ...s, error: unkind ? `There is no bucket ${bucket} on ${cluster}.` : message(err) }));
    }
  }, 30_000, [cluster, bucket, mark, round]);
  const { page, of, error } = state;
  const shown = !error || of === mark;
  const files = (page?.objects ?? []).filter((o) => !o.object_name.endsWith("/"));
  const folders = [...new Set((page?.objects ?? []).map((o) => o.object_name.slice(0, o.object_name.lastIndexOf("/") + 1)).filter(Boolean))];
  return (
    <Page title={bucket} over={<><a href={to("data")}>Data</a> on <bdi>{cluster}</bdi></>}>
      {error && <Failure error={error} retry={() => setRound(round + 1)} />}
      {!page && !error && <Loading what="the bucket" />}
      {page && (
        <div class="columns">
          <div class="wide">
            {shown && <Card title="Objects" flush>
              {files.length === 0 ? <Empty title={mark ? "Nothing more is there." : "Nothing is in it yet."} /> : (
                <div class="scroll" tabIndex={0} role="region" aria-label="Objects">
                  <table class="stack">
                    <thead><tr><th scope="col">Object</th><th scope="col" class="num">Size</th><th scope="col">Changed</th><th scope="col"><span class="hidden">What can be done</span></th></tr></thead>
                    <tbody>{files.map((o) => <ObjectRow key={o.object_name} cluster={cluster} bucket={bucket} o={o} />)}</tbody>
                  </table>
                </div>
              )}
              {(mark || page.is_truncated) && (
                <div class="more pager">
                  <button type="button" class="button small" disabled={!mark} onClick={() => setPages(pages.slice(0, -1))}>Page before</button>
                  <button type="button" class="button small" disabled={!page.is_truncated || !page.next_page} onClick={() => setPages([...pages, page.next_page ?? ""])}>Next page</button>
                </div>
              )}
            </Card>}
          </div>
          <div class="narrow"><Upload cluster={cluster} bucket={bucket} folders={folders} done={() => setRound((n) => n + 1)} /></div>
        </div>
      )}
    </Page>
  );
}

function ObjectRow({ cluster, bucket, o }: { cluster: string; bucket: string; o: Entry }) {
  const action = useAction();
  // The browser goes there by itself, in another tab: no script of this page reads the object.
  const download = () => action.run(async () => {
    const link = await presign(cluster, bucket, o.object_name, "download");
    const no = outOfReach(link.url);
    if (no) throw new Error(no);
    const a = document.createElement("a");
    a.href = link.url.href;
    a.target = "_blank";
    a.rel = "noopener noreferrer";
    a.download = o.object_name.split("/").at(-1) ?? "";
    a.click();
  });
  return (
    <tr>
      <th scope="row"><bdi>{o.object_name}</bdi>{action.error && <span class="block field-error" role="alert">{action.error}</span>}</th>
      <td data-label="Size" class="num">{bytes(o.size_bytes)}</td>
      <td data-label="Changed" class="nowrap">{changed(o.last_modified)}</td>
      <td class="end"><button type="button" class="button small" aria-label={`Download ${o.object_name}`} disabled={action.busy} onClick={download}>Download</button></td>
    </tr>
  );
}

/** changed is OSCAR's text of a time, in the words of the reader where it can be read. */
function changed(text: string | undefined): string {
  const m = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)/.exec(text ?? "");
  const at = new Date(m ? `${m[1]}T${m[2]}Z` : (text ?? ""));
  return Number.isNaN(at.getTime()) ? "–" : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

interface Sending {
  name: string;
  size: number;
  sent: number;
  state: "sending" | "sent" | "failed";
  why?: string;
}

/** Upload sends files into a folder of the bucket, one after the other. */
function Upload({ cluster, bucket, folders, done }: { cluster: string; bucket: string; folders: string[]; done: () => void }) {
  const [folder, setFolder] = useState<string>();
  const [list, setList] = useState<Sending[]>([]);
  const stop = useRef(new AbortController());
  const end = () => stop.current.abort(new Error("The upload was stopped."));
  useEffect(() => end, []);
  const into = (folder ?? folders[0] ?? "").replace(/^\/+/, "");
  const prefix = into && !into.endsWith("/") ? `${into}/` : into;
  const busy = list.some((s) => s.state === "sending");
  const send = async (files: File[]) => {
    stop.current = new AbortController();
    const signal = stop.current.signal;
    setList(files.map((f) => ({ name: prefix + f.name, size: f.size, sent: 0, state: "sending" })));
    const set = (i: number, change: Partial<Sending>) => setList((now) => now.map((s, at) => (at === i ? { ...s, ...change } : s)));
    for (const [i, f] of files.entries()) {
      try {
        signal.throwIfAborted();
        const link = await presign(cluster, bucket, prefix + f.name, "upload", signal);
        const no = outOfReach(link.url);
        if (no) throw new Error(no);
        await upload(link, f, (sent) => set(i, { sent }), signal);
        set(i, { state: "sent", sent: f.size });
      } catch (err) {
        set(i, { state: "failed", why: message(err) });
      }
    }
    done();
  };
  return (
    <Card title="Upload">
      <label>
        Folder
        <input value={folder ?? folders[0] ?? ""} placeholder="the bucket itself" list="folders" spellcheck={false} autocapitalize="none" autocomplete="off" onInput={(e) => setFolder(e.currentTarget.value)} />
      </label>
      <datalist id="folders">{folders.map((f) => <option key={f} value={f} />)}</datalist>
      <label>
        Files
        <input type="file" multiple disabled={busy} onChange={(e) => { const files = [...(e.currentTarget.files ?? [])]; e.currentTarget.value = ""; if (files.length > 0) void send(files); }} />
      </label>
      <p class="small muted">They go from this browser to the cluster’s MinIO. In an input folder each starts a job.</p>
      {list.length > 0 && (
        <ul class="sendings" aria-live="polite">
          {list.map((s) => (
            <li key={s.name}>
              <span class="break"><bdi>{s.name}</bdi></span>
              {s.state === "failed" ? <span class="field-error">{s.why}</span> : (
                <><progress max={Math.max(1, s.size)} value={s.state === "sent" ? Math.max(1, s.size) : s.sent} aria-label={`Upload of ${s.name}`} /><span class="small muted">{s.state === "sent" ? `Sent, ${bytes(s.size)}` : `${bytes(s.sent)} of ${bytes(s.size)}`}</span></>
              )}
            </li>
          ))}
        </ul>
      )}
      {busy && <div><button type="button" class="button small" onClick={end}>Stop</button></div>}
    </Card>
  );
}
