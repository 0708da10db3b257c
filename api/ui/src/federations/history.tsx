import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { read } from "../api/client";
import { usePoll } from "../api/poll";
import type { Federation, Generation } from "../api/types";
import { count } from "../parts/numbers";
import { Card, Copy, Dialog, Empty, Failure, Loading, useAction } from "../parts/parts";
import { Ago } from "../parts/time";
import { at } from "./at";
import { definitionText } from "./diff";
import { Diff } from "./difference";

/** History shows the kept definitions, compares two of them, and goes back to an older one. */
export function History({ f }: { f: Federation }) {
  const history = usePoll<Generation[]>(at(f, "/history"), 30_000);
  useEffect(() => history.reload(), [f.generation]);
  const [chosen, setChosen] = useState<number>();
  const [back, setBack] = useState<number>();
  if (!history.data) return history.error ? <Failure error={history.error} retry={history.reload} /> : <Loading what="the history" />;
  const all = history.data;
  const shown = all.find((g) => g.generation === chosen) ?? all[0];
  if (!shown) return <Card><Empty title="No definition is kept." /></Card>;
  const before = all.find((g) => g.generation === shown.generation - 1);
  const text = write(shown);
  return (
    <div class="columns">
      <div class="wide">
        {before && <Card title={`What generation ${count(shown.generation)} changed`} flush><Diff before={write(before)} after={text} /></Card>}
        <Card title={`Definition of generation ${count(shown.generation)}`} aside={<Copy text={text} />}>
          <pre class="source" tabIndex={0} aria-label="Definition"><code>{text}</code></pre>
        </Card>
      </div>
      <div class="narrow">
        <Card title="Generations" flush>
          <ul class="rows">
            {all.map((g) => (
              <li key={g.generation} class={g === shown ? "row chosen" : "row"}>
                <span class="row-main">
                  <button type="button" class="link" aria-pressed={g === shown} onClick={() => setChosen(g.generation)}>Generation {count(g.generation)}{g === all[0] && ", present"}</button>
                  <span class="row-text">by <bdi>{g.by || "the control plane"}</bdi>, <Ago at={g.changed_at} /></span>
                </span>
                {g !== all[0] && <button type="button" class="button small" onClick={() => setBack(g.generation)}>Roll back …</button>}
              </li>
            ))}
          </ul>
        </Card>
      </div>
      {back !== undefined && <Rollback f={f} to={back} lines={<Diff before={write(all[0] as Generation)} after={write(all.find((g) => g.generation === back) as Generation)} />} close={() => { setBack(undefined); history.reload(); }} />}
    </div>
  );
}

function write(g: Generation): string {
  return definitionText(g.service).trimStart();
}

function Rollback({ f, to, lines, close }: { f: Federation; to: number; lines: ComponentChildren; close: () => void }) {
  const action = useAction();
  const go = () => action.run(async () => {
    await read(at(f, "/rollback"), { method: "POST", json: { to }, headers: { "If-Match": `"${f.revision}"` } });
    close();
  });
  return (
    <Dialog title={`Roll back to generation ${count(to)}`} close={close}>
      <p>Its definition becomes generation {count(f.generation + 1)}, with the secrets of today:</p>
      {lines}
      {action.error && <p class="note bad" role="alert">{action.error}</p>}
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>Cancel</button>
        <button type="button" class="button primary" disabled={action.busy} onClick={go}>{action.busy ? "Rolling back …" : "Roll back"}</button>
      </div>
    </Dialog>
  );
}
