import { usePoll } from "../api/poll";
import type { Usage } from "../api/types";
import { bytes } from "../parts/numbers";
import { Bar, Card, Failure, Loading, Page } from "../parts/parts";
import { Ago } from "../parts/time";
import { me } from "../session/session";

const rights: Record<string, string> = {
  own: "Make, change and delete your own services and jobs",
  storage: "Read and write your own files, buckets and volumes",
  all: "Read, change and delete what everybody owns",
  clusters: "Register, change and remove clusters, and resolve differences",
};

export function Account() {
  const who = me.value;
  return (
    <Page title="Who am I">
      <div class="columns even">
        <Card title="You">
          {who && (
            <dl class="facts">
              <dt>Subject</dt><dd class="break"><bdi>{who.subject}</bdi></dd>
              {who.name && <><dt>Name</dt><dd><bdi>{who.name}</bdi></dd></>}
              {who.issuer && <><dt>Issuer</dt><dd class="break">{who.issuer}</dd></>}
              <dt>Groups</dt><dd>{who.groups.length > 0 ? <ul class="labels">{who.groups.map((g) => <li key={g}>{g}</li>)}</ul> : "none"}</dd>
              <dt>Your services are</dt><dd class="break"><bdi>{who.owner}</bdi>’s</dd>
              {who.token_expires_at && <><dt>Token</dt><dd>runs out <Ago at={who.token_expires_at} />, and is renewed before</dd></>}
            </dl>
          )}
        </Card>
        <Card title="You may">
          <ul class="may">{who?.rights.map((r) => <li key={r}>{rights[r] ?? r}</li>)}</ul>
        </Card>
      </div>
      <Budget />
    </Page>
  );
}

function Budget() {
  const usage = usePoll<Usage>("/system/usage", 30_000);
  if (!usage.data) return usage.error ? <Failure error={usage.error} retry={usage.reload} /> : <Loading what="what you use" />;
  const u = usage.data;
  return (
    <Card title="What accounts have in etcd" aside={`A user may have ${bytes(u.budget_bytes)}`} flush>
      <div class="scroll" tabIndex={0} role="region" aria-label="What accounts have in etcd">
        <table class="stack">
          <thead><tr><th scope="col" class="first">Account</th><th scope="col">Used</th><th scope="col" class="num">Federations</th><th scope="col" class="num">History</th><th scope="col" class="num">Jobs</th><th scope="col" class="num">Left</th></tr></thead>
          <tbody>
            {u.accounts.map((a) => (
              <tr key={a.subject}>
                <th scope="row"><bdi>{a.subject}</bdi></th>
                <td data-label="Used"><div><Bar whole={u.budget_bytes} label={`${bytes(a.used_bytes)} used`} parts={[{ value: a.used_bytes, kind: "used" }]} /><span class="small muted">{bytes(a.used_bytes)}</span></div></td>
                <td data-label="Federations" class="num">{bytes(a.federation_bytes + a.part_bytes + a.desired_bytes)}</td>
                <td data-label="History" class="num">{bytes(a.history_bytes + a.deleted_bytes)}</td>
                <td data-label="Jobs" class="num">{bytes(a.job_bytes + a.request_bytes)}</td>
                <td data-label="Left" class="num">{a.left_bytes === undefined ? "no budget" : bytes(a.left_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
