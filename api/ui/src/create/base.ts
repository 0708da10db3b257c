import { query, read } from "../api/client";
import type { Federation, Generation } from "../api/types";
import { write } from "./fdl";

/** Base is the definition that a change begins with. */
export interface Base {
  uid: string;
  generation: number;
  text: string;
}

/** readBase reads the present definition, as it was submitted: its secrets are empty. */
export async function readBase(uid: string): Promise<Base> {
  for (;;) {
    const f = await read<Federation>(`/system/federations/${encodeURIComponent(uid)}`);
    const path = `/system/replicas/${encodeURIComponent(f.coordinator.service_name)}/history${query({ cluster_id: f.coordinator.cluster_id })}`;
    const kept = await read<Generation[]>(path);
    const present = kept.find((g) => g.generation === f.generation);
    if (present) return { uid, generation: f.generation, text: write({ ...present.service as Record<string, unknown>, cluster_id: f.coordinator.cluster_id }) };
    if (!kept.some((g) => g.generation > f.generation)) throw new Error("The present definition is not kept. `oscarfed get service -o fdl` shows it.");
  }
}

/** template is what a creation begins with. */
export const template = `functions:
  oscar:
    - default-cluster:
        name: ""
        image: ""
        cpu: "0.5"
        memory: 512Mi
        script: |
          #!/bin/sh
          echo "The event is in $INPUT_FILE_PATH"
`;
