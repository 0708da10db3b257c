import { query } from "../api/client";
import { usePoll } from "../api/poll";
import type { AuditEntry } from "../api/types";
import { federations, name } from "../live/store";
import { count } from "../parts/numbers";
import { Card, Empty, Failure, Loading, Page } from "../parts/parts";
import { State, words } from "../parts/state";
import { Ago } from "../parts/time";
import { refine, route, to } from "../route";

const step = 100;

/** Audit is who did what, the newest first. */
export function Audit() {
  const q = route.value.query;
  const limit = Math.min(1000, Math.max(step, Number(q.get("shown")) || 0));
  const by = q.get("by") ?? "";
  const list = usePoll<AuditEntry[]>(`/system/audit${query({ limit, by })}`, 10_000);
  return (
    <Page title="Audit">
      <div class="filters">
        <label class="search">
          <span class="hidden">By whom</span>
          <input type="search" placeholder="Subject of a caller" value={by} onChange={(e) => refine({ by: e.currentTarget.value.trim(), shown: undefined })} />
        </label>
      </div>
      <Card flush>
        {!list.data ? (list.error ? <Failure error={list.error} retry={list.reload} /> : <Loading what="the audit" />)
          : list.data.length === 0 ? <Empty title={by ? "Nobody of this name did anything that is kept." : "Nothing was done yet."} /> : (
            <div class="scroll" tabIndex={0} role="region" aria-label="Audit">
              <table class="stack">
                <thead><tr><th scope="col">What</th><th scope="col">Outcome</th><th scope="col">About</th><th scope="col">By</th><th scope="col">More</th><th scope="col">When</th></tr></thead>
                <tbody>{list.data.map((e) => <Row key={e.id} e={e} />)}</tbody>
              </table>
            </div>
          )}
        {list.data && list.data.length >= limit && limit < 1000 && (
          <p class="more"><button type="button" class="button small" onClick={() => refine({ shown: String(limit + step) })}>Show {count(step)} more</button></p>
        )}
      </Card>
    </Page>
  );
}

function Row({ e }: { e: AuditEntry }) {
  const f = e.federation ? federations.value.get(e.federation) : undefined;
  return (
    <tr>
      <th scope="row">{words(e.action)}</th>
      <td data-label="Outcome"><State state={e.outcome} /></td>
      <td data-label="About" class="break">{f ? <a href={to("federations", f.uid)}><bdi>{name(f)}</bdi></a> : <bdi>{e.cluster_id || e.group_id || "–"}</bdi>}</td>
      <td data-label="By" class="break"><bdi>{e.by || "the control plane"}</bdi></td>
      <td data-label="More" class="text">{e.detail}</td>
      <td class="nowrap" data-label="When"><Ago at={e.at} /></td>
    </tr>
  );
}
