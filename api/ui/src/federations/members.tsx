import { useEffect, useRef, useState } from "preact/hooks";
import { message, query, read, send } from "../api/client";
import { address, type Federation, type Generation, type Plan, type Replica } from "../api/types";
import { ClusterPicker } from "../create/clusters";
import { PlanView } from "../create/plan";
import { name } from "../live/store";
import { Dialog, Loading, useAction } from "../parts/parts";
import { at } from "./at";

type Members = Record<string, unknown>[];

/** planMembers asks what other members would do to the present definition. */
async function planMembers(f: Federation, change: (members: Members) => Members): Promise<Plan> {
  const kept = await read<Generation[]>(at(f, "/history"));
  const present = kept[0];
  if (!present) throw new Error("The present definition is not kept.");
  const service = present.service as Record<string, unknown> & { federation?: { members?: Members | null } };
  const federation = { ...service.federation, members: change(service.federation?.members ?? []) };
  const plan = await read<Plan>("/system/plans", { method: "POST", json: { ...service, cluster_id: f.coordinator.cluster_id, federation } });
  if (plan.generation !== present.generation) throw new Error("Somebody else is changing it at this moment. Try again.");
  return plan;
}

/** AddMembers puts the service on more clusters. They vote first: the no of one of them changes nothing. */
export function AddMembers({ f, close }: { f: Federation; close: () => void }) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [plan, setPlan] = useState<Plan>();
  const action = useAction();
  const there = new Set(f.replicas.filter((r) => r.type !== "endpoint").map((r) => r.cluster_id));
  const added = () => [...chosen].map((cluster) => ({ type: "oscar", cluster_id: cluster, service_name: name(f), priority: 0 }));
  const toggle = (id: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
    setPlan(undefined);
  };
  const show = () => action.run(async () => {
    setPlan(await planMembers(f, (members) => [...members, ...added()]));
  });
  const add = () => action.run(async () => {
    const headers = plan ? { "If-Match": `"${plan.revision}"` } : undefined;
    try {
      await send(at(f, ""), { method: "POST", json: { replicas: added() }, ...(headers ? { headers } : {}) });
    } catch (err) {
      setPlan(undefined); // what is there may be another by now
      throw err;
    }
    close();
  });
  return (
    <Dialog title={`Add members to ${name(f)}`} close={close}>
      <ClusterPicker legend="Clusters" chosen={chosen} without={there} toggle={toggle} />
      {plan && <Planned plan={plan} />}
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>Cancel</button>
        {plan ? <button type="button" class="button primary" disabled={action.busy} onClick={add}>{action.busy ? "Adding …" : "Add them"}</button>
          : <button type="button" class="button primary" disabled={action.busy || chosen.size === 0} onClick={show}>Show the plan</button>}
      </div>
    </Dialog>
  );
}

/** RemoveMember takes one member out, and says what stays. */
export function RemoveMember({ f, r, close }: { f: Federation; r: Replica; close: () => void }) {
  const [plan, setPlan] = useState<Plan>();
  const [error, setError] = useState("");
  const [data, setData] = useState(false);
  const [jobs, setJobs] = useState(false);
  const action = useAction();
  const endpoint = r.type === "endpoint";
  const gone = (m: Record<string, unknown>) => (endpoint ? m.url === r.url : m.cluster_id === r.cluster_id && m.service_name === r.service_name);
  useEffect(() => {
    planMembers(f, (members) => members.filter((m) => !gone(m))).then(setPlan, (err: unknown) => setError(message(err)));
  }, []);
  const remove = () => action.run(async () => {
    const member = { type: r.type, cluster_id: r.cluster_id, service_name: r.service_name, priority: r.priority, ...(r.url ? { url: r.url } : {}) };
    const path = `/system/replicas/${encodeURIComponent(f.coordinator.service_name)}${query({ cluster_id: f.coordinator.cluster_id, data: data && "delete", jobs: jobs && "cancel" })}`;
    await send(path, { method: "DELETE", json: { replicas: [member] }, ...(plan ? { headers: { "If-Match": `"${plan.revision}"` } } : {}) });
    close();
  });
  return (
    <Dialog title={`Remove ${address(r)}`} close={close}>
      {endpoint ? <p>It gets no more jobs. What runs there is not ours.</p> : (
        <>
          <p><strong>Goes:</strong> the service on <bdi>{r.cluster_id}</bdi>{data ? ", and the buckets that its creation made" : ""}.</p>
          <p><strong>Stays:</strong> {data ? "buckets that were there before" : "its buckets and their objects"}{jobs ? "" : "; running jobs are waited for"}.</p>
          {r.status?.phase === "unreachable" && <p class="note warn"><span><bdi>{r.cluster_id}</bdi> is away: the service there goes when the cluster returns.</span></p>}
          <label class="check"><input type="checkbox" checked={jobs} onChange={(e) => setJobs(e.currentTarget.checked)} /> End running jobs</label>
          <label class="check"><input type="checkbox" checked={data} onChange={(e) => setData(e.currentTarget.checked)} /> Delete its buckets with all that is in them</label>
        </>
      )}
      {plan ? <Planned plan={plan} /> : error ? <p class="note bad" role="alert">{error}</p> : <Loading what="the plan" />}
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>Keep it</button>
        <button type="button" class="button danger" disabled={action.busy || !plan} onClick={remove}>Remove the member</button>
      </div>
    </Dialog>
  );
}

function Planned({ plan }: { plan: Plan }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => ref.current?.scrollIntoView({ block: "nearest" }), []);
  return <div ref={ref} class="framed"><PlanView plan={plan} /></div>;
}
