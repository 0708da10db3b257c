import { useState } from "preact/hooks";
import { query, send } from "../api/client";
import { services, type Federation } from "../api/types";
import { name } from "../live/store";
import { plural } from "../parts/numbers";
import { Dialog, useAction } from "../parts/parts";
import { to } from "../route";

/** Delete says what goes and what stays, and asks for the name. */
export function Delete({ f, close }: { f: Federation; close: () => void }) {
  const [data, setData] = useState(false);
  const [jobs, setJobs] = useState(false);
  const [typed, setTyped] = useState("");
  const action = useAction();
  const ours = services(f);
  const away = ours.filter((r) => r.status?.phase === "unreachable");
  const remove = () => action.run(async () => {
    const how = { cluster_id: f.coordinator.cluster_id, data: data && "delete", jobs: jobs && "cancel" };
    await send(`/system/services/${encodeURIComponent(f.coordinator.service_name)}${query(how)}`, { method: "DELETE" });
    close();
    location.hash = to("federations");
  });
  return (
    <Dialog title={`Delete ${name(f)}`} close={close}>
      <p><strong>Goes:</strong> {plural(ours.length, "service")} on {plural(new Set(ours.map((r) => r.cluster_id)).size, "cluster")}{data ? ", and the buckets that their creation made" : ""}.</p>
      <p><strong>Stays:</strong> {data ? "buckets that were there before, and their objects" : "all buckets and their objects"}{jobs ? "" : "; running jobs are waited for"}.</p>
      {away.length > 0 && <p class="note warn">{away.map((r) => r.cluster_id).join(", ")} {away.length === 1 ? "is" : "are"} away: the service there goes when the cluster returns.</p>}
      <label class="check"><input type="checkbox" checked={jobs} onChange={(e) => setJobs(e.currentTarget.checked)} /> End running jobs</label>
      <label class="check"><input type="checkbox" checked={data} onChange={(e) => setData(e.currentTarget.checked)} /> Delete its buckets with all that is in them</label>
      <label>
        <span>Type <code>{name(f)}</code> to go on</span>
        <input value={typed} autocomplete="off" spellcheck={false} autocapitalize="none" onInput={(e) => setTyped(e.currentTarget.value)} />
      </label>
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>Keep it</button>
        <button type="button" class="button danger" disabled={action.busy || typed !== name(f)} onClick={remove}>Delete the federation</button>
      </div>
    </Dialog>
  );
}
