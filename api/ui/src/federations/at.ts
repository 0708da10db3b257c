import { query } from "../api/client";
import type { Federation } from "../api/types";

/** at is the path of what is done with a federation. */
export function at(f: Federation, what: string): string {
  return `/system/replicas/${encodeURIComponent(f.coordinator.service_name)}${what}${query({ cluster_id: f.coordinator.cluster_id })}`;
}
