import { query } from "../api/client";
import { usePoll } from "../api/poll";
import type { AuditEntry } from "../api/types";
import { federations, name } from "../live/store";
import { Card, Empty, Failure, Loading, Page } from "../parts/parts";
import { Pager, useCursors } from "../parts/pager";
import { State, words } from "../parts/state";
import { Ago } from "../parts/time";
import { refine, route, to } from "../route";
import { administrator } from "../session/session";

const pageSize = 50;

/** Audit is who did what, the newest first: all for the administrator, the own for a user. */
export function Audit() {
  const by = administrator.value ? route.value.query.get("by") ?? "" : "";
  const cursors = useCursors(by);
  // What is behind the first page does not change.
  const list = usePoll<AuditEntry[]>(`/system/audit${query({ limit: pageSize, by, continue: cursors.at })}`, cursors.at ? 0 : 10_000);
  return (
    <Page title="Audit">
      {administrator.value ? (
        <div class="filters">
          <label class="search">
            <span class="hidden">By whom</span>
            <input type="search" placeholder="Subject of a caller" value={by} onChange={(e) => refine({ by: e.currentTarget.value.trim() })} />
          </label>
        </div>
      ) : <p class="muted">What you did, and what was done about your services.</p>}
      <Card flush>
        {!list.data ? (list.error ? <Failure error={list.error} retry={cursors.at ? cursors.first : list.reload} /> : <Loading what="the audit" />)
          : list.data.length === 0 ? <Empty title={list.next ? "Nothing here matches." : by ? "Nobody of this name did anything that is kept." : "Nothing was done yet."}>{list.next && <p>Older entries may.</p>}</Empty> : (
            <div class="scroll" tabIndex={0} role="region" aria-label="Audit">
              <table class="stack">
                <thead><tr><th scope="col">What</th><th scope="col">Outcome</th><th scope="col">About</th><th scope="col">By</th><th scope="col">More</th><th scope="col">When</th></tr></thead>
                <tbody>{list.data.map((e) => <Row key={e.id} e={e} />)}</tbody>
              </table>
            </div>
          )}
        <Pager cursors={cursors} next={list.next} />
      </Card>
    </Page>
  );
}

function Row({ e }: { e: AuditEntry }) {
  const f = e.federation ? federations.value.get(e.federation) : undefined;
  return (
    <tr>
      <th scope="row" class="nowrap">{words(e.action)}</th>
      <td data-label="Outcome"><State state={e.outcome} /></td>
      <td data-label="About" class="break">{f ? <a href={to("federations", f.uid)}><bdi>{name(f)}</bdi></a> : <bdi>{e.cluster_id || e.group_id || "–"}</bdi>}</td>
      <td data-label="By" class="break subject"><bdi>{e.by || "the control plane"}</bdi></td>
      <td data-label="More" class="text">{e.detail || <span class="muted none">–</span>}</td>
      <td class="nowrap" data-label="When"><Ago at={e.at} /></td>
    </tr>
  );
}
