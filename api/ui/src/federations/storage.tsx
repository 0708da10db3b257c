import { useEffect } from "preact/hooks";
import { usePoll } from "../api/poll";
import { services, type Federation } from "../api/types";
import { clusters } from "../live/store";
import { plural } from "../parts/numbers";
import { Card } from "../parts/parts";
import { to } from "../route";

interface Place {
  kind: "reads" | "writes";
  path: string;
  clusters: string[];
}

/** Storage says where inputs and outputs are, with the buckets that the reader can open. The stream does not have them. */
export function Storage({ f }: { f: Federation }) {
  const asked = usePoll<Federation>(`/system/federations/${encodeURIComponent(f.uid)}`, 0);
  useEffect(() => asked.reload(), [f.generation]);
  return asked.data ? <Places f={asked.data} /> : null;
}

function Places({ f }: { f: Federation }) {
  const where = new Map<string, Place>();
  for (const r of f.replicas) {
    for (const [kind, paths] of [["reads", r.inputs], ["writes", r.outputs]] as const) {
      for (const path of paths ?? []) {
        const place = where.get(`${kind} ${path}`) ?? { kind, path, clusters: [] };
        place.clusters.push(r.cluster_id);
        where.set(`${kind} ${path}`, place);
      }
    }
  }
  if (where.size === 0) return null;
  const all = services(f).length;
  return (
    <Card title="Where inputs and outputs are" flush>
      <div class="scroll" tabIndex={0} role="region" aria-label="Where inputs and outputs are">
        <table class="stack">
          <thead><tr><th scope="col">Path</th><th scope="col">Jobs</th><th scope="col">Storage</th><th scope="col">On</th></tr></thead>
          <tbody>
            {[...where.values()].map((p) => {
              const { provider, bucket, path } = parts(p.path);
              return (
                <tr key={`${p.kind} ${p.path}`}>
                  <th scope="row"><code class="break">{path}</code></th>
                  <td data-label="Jobs">{p.kind === "reads" ? "read it; a new file starts one" : "write there"}</td>
                  <td data-label="Storage">{provider === "minio.default" || provider === "minio" ? "the cluster’s MinIO" : provider}</td>
                  <td data-label="On">
                    {provider.startsWith("minio") ? (
                      <ul class="inline">{p.clusters.slice(0, 8).map((c) => <li key={c}>{clusters.value.has(c) ? <a href={to("data", c, bucket)}><bdi>{c}</bdi></a> : <bdi>{c}</bdi>}</li>)}{p.clusters.length > 8 && <li class="muted">{plural(p.clusters.length - 8, "more cluster")}</li>}</ul>
                    ) : p.clusters.length === all ? "every member" : p.clusters.join(", ")}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** parts takes minio.default:bucket/folder apart. */
function parts(of: string): { provider: string; bucket: string; path: string } {
  const colon = of.indexOf(":");
  const path = of.slice(colon + 1).replace(/^\/+/, "");
  return { provider: of.slice(0, Math.max(0, colon)), bucket: path.split("/", 1)[0] ?? "", path };
}
