import { useState } from "preact/hooks";
import { useRepeated } from "../api/poll";
import { message } from "../api/client";
import type { Bucket } from "../api/types";
import { compare } from "../live/store";
import { bytes, count, plural } from "../parts/numbers";
import { Card, Empty, Failure, Loading, Page } from "../parts/parts";
import { refine, route, to } from "../route";
import { readBuckets, type Buckets } from "./objects";

const most = 200;

/** Data lists the buckets that the reader has on all clusters. */
export function Data() {
  const [state, setState] = useState<{ all?: Buckets; error?: string }>({});
  const [round, setRound] = useState(0);
  useRepeated(async (stop) => {
    try {
      const all = await readBuckets(stop);
      if (!stop.aborted) setState({ all });
    } catch (err) {
      if (!stop.aborted) setState((s) => ({ ...s, error: message(err) }));
    }
  }, 30_000, [round]);
  const wanted = (route.value.query.get("search") ?? "").toLowerCase();
  const { all, error } = state;
  const found = (all?.list ?? []).filter((b) => `${b.bucket_name} ${b.cluster_id}`.toLowerCase().includes(wanted));
  const shown = [...found].sort((a, b) => compare(a.cluster_id, b.cluster_id) || compare(a.bucket_name, b.bucket_name)).slice(0, most);
  return (
    <Page title="Data">
      {error && <Failure error={error} retry={() => setRound(round + 1)} />}
      {!all && !error && <Loading what="your buckets" />}
      {all?.missing.map((m) => <div key={m} class="note warn" role="status"><p><strong>Not all clusters have answered.</strong></p><p>{m}</p></div>)}
      {all && all.list.length > 6 && (
        <div class="filters">
          <label class="search"><span class="hidden">Search buckets</span><input type="search" placeholder="Bucket or cluster" value={route.value.query.get("search") ?? ""} onInput={(e) => refine({ search: e.currentTarget.value })} /></label>
          <span class="muted" role="status">{found.length > shown.length ? `The first ${count(shown.length)} of ${plural(found.length, "bucket")}: search for others` : plural(found.length, "bucket")}</span>
        </div>
      )}
      {all && (
        <Card flush>
          {all.list.length === 0 ? <Empty title="You have no bucket.">A service makes those that its inputs and outputs name.</Empty> : shown.length === 0 ? <Empty title="No bucket matches." /> : (
            <div class="scroll" tabIndex={0} role="region" aria-label="Buckets">
              <table class="stack">
                <thead><tr><th scope="col">Bucket</th><th scope="col">Cluster</th><th scope="col">Seen by</th><th scope="col" class="num">Objects</th><th scope="col" class="num">Size</th></tr></thead>
                <tbody>{shown.map((b) => <Row key={`${b.cluster_id}/${b.bucket_name}`} b={b} />)}</tbody>
              </table>
            </div>
          )}
        </Card>
      )}
    </Page>
  );
}

function Row({ b }: { b: Bucket }) {
  return (
    <tr>
      <th scope="row"><a href={to("data", b.cluster_id, b.bucket_name)}><bdi>{b.bucket_name}</bdi></a></th>
      <td data-label="Cluster"><bdi>{b.cluster_id}</bdi></td>
      <td data-label="Seen by">{b.visibility || "its owner"}</td>
      <td data-label="Objects" class="num">{b.storage_usage?.objects === undefined ? "–" : count(b.storage_usage.objects)}</td>
      <td data-label="Size" class="num">{b.storage_usage ? bytes(b.storage_usage.used_bytes) : "–"}</td>
    </tr>
  );
}
