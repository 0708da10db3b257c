import { query, read, send } from "../api/client";
import type { Bucket } from "../api/types";

/** Page is a bucket with some of its objects, as OSCAR answers it. */
export interface ObjectPage extends Bucket {
  next_page?: string;
  is_truncated?: boolean;
}

/** Buckets are those on all clusters; missing says which clusters have no part in it, and why. */
export interface Buckets {
  list: Bucket[];
  missing: string[];
}

export async function readBuckets(signal: AbortSignal): Promise<Buckets> {
  const answer = await send("/system/buckets", { signal });
  const list = (await answer.json()) as Bucket[] | null;
  // One line of the header is one cluster; a browser joins lines by commas.
  const missing = answer.headers.get("Oscarfed-Missing");
  return { list: list ?? [], missing: missing ? [missing] : [] };
}

function bucketPath(bucket: string): string {
  return `/system/buckets/${encodeURIComponent(bucket)}`;
}

export function readObjects(cluster: string, bucket: string, page: string, signal: AbortSignal): Promise<ObjectPage> {
  return read<ObjectPage>(`${bucketPath(bucket)}${query({ cluster_id: cluster, page })}`, { signal });
}

/** Link is a presigned request to one object, good for some minutes. */
export interface Link {
  url: URL;
  method: string;
  headers: Record<string, string>;
}

/** seconds that a link is good for. */
const goodFor = { download: 300, upload: 3600 };

/** presign asks for a link. Its address is a cluster's word, so that all but http is refused. */
export async function presign(cluster: string, bucket: string, object: string, operation: "download" | "upload", signal?: AbortSignal): Promise<Link> {
  const answer = await read<{ url?: unknown; method?: unknown; headers?: Record<string, unknown> | null }>(`${bucketPath(bucket)}/presign${query({ cluster_id: cluster })}`, {
    method: "POST", json: { object_key: object, operation, expires_in: goodFor[operation] },
    ...(signal ? { signal } : {}),
  });
  let url: URL;
  try {
    url = new URL(String(answer.url));
  } catch {
    throw new Error(`${cluster} answered with no address.`);
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new Error(`${cluster} answered with an address that is no web address.`);
  const headers = Object.fromEntries(Object.entries(answer.headers ?? {}).map(([k, v]) => [k, String(v)]));
  return { url, method: String(answer.method ?? ""), headers };
}

/** outOfReach says why a browser will not open an address from this page, before it tries. */
export function outOfReach(url: URL): string {
  const here = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (location.protocol === "https:" && url.protocol === "http:" && !here) {
    return `This page has TLS and ${url.host} has none, so the browser sends nothing there (mixed content). Give the MinIO a certificate, or use oscar-cli.`;
  }
  if (url.hostname.endsWith(".svc") || url.hostname.includes(".svc.")) {
    return `${url.host} is a name inside its Kubernetes, which a browser does not reach. Give the MinIO an ingress and say so to its OSCAR.`;
  }
  return "";
}
