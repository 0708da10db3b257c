import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { message } from "../api/client";
import type { Plan as PlanOfOne } from "../api/types";
import { Diff } from "../federations/difference";
import { federations, name as nameOf } from "../live/store";
import { count } from "../parts/numbers";
import { Card, Failure, Loading, Page } from "../parts/parts";
import { to } from "../route";
import { readBase, template, type Base } from "./base";
import { draft, keep } from "./draft";
import { Editor } from "./editor";
import { Fdl, type Message } from "./fdl";
import { Form } from "./form";
import { Messages } from "./messages";
import { PlanCard } from "./plan";
import { AllProgress, type Underway } from "./progress";
import { askPlan, refusalOf, submit, type Part, type Planned, type Refusal } from "./submit";

/** Create makes a service. */
export function Create() {
  return (
    <Page title="Create a service" over={<a href={to("federations")}>Federations</a>}>
      <Definition key="" base={undefined} />
    </Page>
  );
}

/** Change changes one that is there: only if nobody else has changed it since it was read. */
export function Change({ uid }: { uid: string }) {
  const [base, setBase] = useState<Base>();
  const [error, setError] = useState("");
  const f = federations.value.get(uid);
  const load = () => {
    setError("");
    readBase(uid).then(setBase, (err: unknown) => setError(message(err)));
  };
  useEffect(load, [uid]);
  return (
    <Page title={f ? `Change ${nameOf(f)}` : "Change a service"} over={<a href={to("federations", uid)}>{f ? nameOf(f) : "Federation"}</a>}>
      {base ? <Definition key={uid} base={base} present={f?.generation} rebase={setBase} /> : error ? <Failure error={error} retry={load} /> : <Loading what="the definition" />}
    </Page>
  );
}

interface Props {
  base: Base | undefined;
  /** present is the generation that is there now. */
  present?: number | undefined;
  rebase?: (base: Base) => void;
}

type Step =
  | { is: "editing" }
  | { is: "asking" }
  | { is: "planned"; planned: Planned }
  | { is: "sending"; planned: Planned; lost: string }
  | { is: "sent"; underway: Underway[] };

function Definition({ base, present, rebase }: Props) {
  const uid = base?.uid ?? "";
  const [fdl, setFdl] = useState(() => new Fdl(draft(uid) ?? base?.text ?? template));
  const [good, setGood] = useState<Fdl | undefined>(() => (fdl.readable ? fdl : undefined));
  const [at, setAt] = useState(0);
  const [alone, setAlone] = useState(false);
  const [step, setStep] = useState<Step>({ is: "editing" });
  const [refusal, setRefusal] = useState<Refusal>();
  const [warnings, setWarnings] = useState<Message[]>([]);
  const [go, setGo] = useState<{ line: number }>();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);

  const index = Math.min(at, Math.max(0, fdl.services.length - 1));
  const several = base === undefined && fdl.services.length > 1;
  const chosen = several && !alone ? fdl.services.map((_, i) => i) : [index];
  const again = () => {
    setStep({ is: "editing" });
    setRefusal(undefined);
  };
  const update = (next: Fdl) => {
    setFdl(next);
    if (next.readable) setGood(next);
    keep(uid, next.text === (base?.text ?? template) ? undefined : next.text);
    setRefusal(undefined);
    setWarnings([]);
    setStep({ is: "editing" });
  };
  const fail = (err: unknown) => {
    setRefusal(refusalOf(err, fdl, chosen));
    setStep({ is: "editing" });
  };
  const review = async () => {
    setRefusal(undefined);
    setStep({ is: "asking" });
    try {
      const planned = await askPlan(fdl, chosen);
      setWarnings(planned.warnings);
      const wrong = mismatch(planned, base, fdl);
      if (wrong) {
        setRefusal(wrong);
        setStep({ is: "editing" });
      } else setStep({ is: "planned", planned });
    } catch (err) {
      fail(err);
    }
  };
  const write = async (planned: Planned) => {
    stop.current = new AbortController();
    setStep({ is: "sending", planned, lost: "" });
    try {
      const made = await submit(planned, (why) => setStep({ is: "sending", planned, lost: why }), stop.current.signal);
      keep(uid, undefined);
      const what = planned.parts[0].plan.action === "create" ? "create" : "change";
      setStep({ is: "sent", underway: made.map(({ uid, generation }) => ({ uid, generation, what })) });
    } catch (err) {
      fail(err);
    }
  };
  const busy = step.is === "asking" || step.is === "sending";
  const errors = useMemo(() => [...fdl.errors, ...(refusal?.messages ?? [])], [fdl, refusal]);

  if (step.is === "sent") return <AllProgress of={step.underway} again={() => setStep({ is: "editing" })} />;
  return (
    <>
      {base && present !== undefined && present > base.generation && !refusal?.changed && (
        <Changed base={base} text={fdl.text} rebase={rebase} update={update} />
      )}
      {refusal && (refusal.changed && base ? <Changed base={base} text={fdl.text} rebase={rebase} update={update} title={refusal.title} /> : (
        <Messages title={refusal.title} messages={refusal.messages} tone="bad" go={(m) => setGo({ line: m.line })} />
      ))}
      {warnings.length > 0 && <Messages title="Keys that have no effect" messages={warnings} tone="warn" go={(m) => setGo({ line: m.line })} />}
      {(step.is === "planned" || step.is === "sending") && (
        <Plan step={step} base={base} text={fdl.text} back={() => setStep({ is: "editing" })} write={() => void write(step.planned)} giveUp={() => stop.current.abort()} />
      )}
      <form class="definition" noValidate onSubmit={(e) => { e.preventDefault(); void review(); }}>
        <Card title="Form">
          {fdl.readable && fdl.services.length > 1 && (
            <>
              <label>
                The file has {count(fdl.services.length)} services; {several ? "the form shows" : "this one is sent"}
                <select value={String(index)} onChange={(e) => { setAt(Number(e.currentTarget.value)); if (chosen.length === 1) again(); }}>
                  {fdl.services.map((s, i) => <option key={i} value={String(i)}>{s}</option>)}
                </select>
              </label>
              {several && <label class="check"><input type="checkbox" checked={alone} onChange={(e) => { setAlone(e.currentTarget.checked); again(); }} /> Send this one alone; else all are created together, or none</label>}
            </>
          )}
          {!fdl.readable && <p class="note warn">The FDL cannot be read: {fdl.errors[0]?.text}, at line {fdl.errors[0]?.line}. The form follows it when it can.</p>}
          {good && <fieldset class="bare" disabled={busy || !fdl.readable}><legend class="hidden">The service</legend><Form fdl={fdl.readable ? fdl : good} at={index} change={base !== undefined} errors={errors.filter((e) => e.of === undefined || e.of === index)} update={update} /></fieldset>}
        </Card>
        <div class="beside">
          <Card title="FDL" aside="Both say the same">
            <Editor text={fdl.text} errors={errors} warnings={warnings} disabled={busy} go={go} change={(text) => update(new Fdl(text))} />
            {fdl.errors.length > 0 && <ul class="small field-error">{fdl.errors.slice(0, 5).map((e, i) => <li key={i}>Line {e.line}: {e.text}</li>)}</ul>}
          </Card>
          {step.is !== "planned" && step.is !== "sending" && (
            <div class="dialog-foot">
              <button type="submit" class="button primary" disabled={busy || !fdl.readable}>{step.is === "asking" ? "Asking …" : "Show the plan"}</button>
            </div>
          )}
        </div>
      </form>
    </>
  );
}

/** mismatch says why what is planned is not what this view is for. */
function mismatch({ parts }: Planned, base: Base | undefined, fdl: Fdl): Refusal | undefined {
  const there = base ? [] : parts.filter((p) => p.plan.action !== "create");
  const says = (p: Part) => `You have a service ${p.plan.coordinator.service_name} already. Open its federation to change it, or choose another name.`;
  const [first] = there;
  if (first && parts.length === 1) return { title: says(first), messages: [], changed: false };
  if (first) return { title: "Only what is new is created together", messages: there.map((p) => ({ line: fdl.lineAt(p.at, "name"), path: "name", text: says(p), of: p.at })), changed: false };
  const [{ plan }] = parts;
  if (base && plan.action === "create") return { title: "The service is gone: somebody has deleted it meanwhile.", messages: [], changed: false };
  if (base && plan.uid !== base.uid) return { title: "A new service has this name meanwhile. Begin again at its federation.", messages: [], changed: false };
  if (base && plan.generation !== base.generation) return { title: "Somebody else has changed it since you began.", messages: [], changed: true };
  return undefined;
}

/** Plan shows what will be written, and writes it. */
function Plan({ step, base, text, back, write, giveUp }: { step: { is: "planned" | "sending"; planned: Planned; lost?: string }; base: Base | undefined; text: string; back: () => void; write: () => void; giveUp: () => void }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    ref.current?.focus();
    ref.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const { parts } = step.planned;
  const [{ plan }] = parts;
  const together = parts.length > 1;
  const sending = step.is === "sending";
  return (
    <div ref={ref} tabIndex={-1} class="planned">
      {together && parts.map((p) => <PlanCard key={p.at} plan={p.plan} title={p.plan.coordinator.service_name} />)}
      <PlanFrame plan={together ? undefined : plan} title={together ? `All ${count(parts.length)} services, or none of them` : plan.action === "none" ? "Nothing would change" : "The plan"}>
        {base && plan.action !== "none" && <Diff before={base.text} after={text} />}
        {together && <p class="pad">What a cluster refuses of one of them is made nowhere of any.</p>}
        {sending && step.lost && <div class="note warn" role="alert"><p><strong>No answer: {step.lost}</strong></p><p>It is asked for again with the same key: whatever arrived is done once.</p></div>}
        <div class="dialog-foot pad">
          {sending ? <button type="button" class="button" onClick={giveUp}>Stop waiting</button> : <button type="button" class="button" onClick={back}>Go on editing</button>}
          {plan.action !== "none" && <button type="button" class="button primary" disabled={sending} onClick={write}>{sending ? "Sending …" : together ? "Create all" : plan.action === "create" ? "Create it" : "Change it"}</button>}
        </div>
      </PlanFrame>
    </div>
  );
}

/** PlanFrame is a plan, or a card without one. */
function PlanFrame({ plan, title, children }: { plan: PlanOfOne | undefined; title: string; children: ComponentChildren }) {
  return plan ? <PlanCard plan={plan} title={title}>{children}</PlanCard> : <Card title={title} flush>{children}</Card>;
}

/** Changed shows what somebody else has made meanwhile, and lets the reader choose. Nothing is overwritten before. */
function Changed({ base, text, rebase, update, title }: { base: Base; text: string; rebase: ((base: Base) => void) | undefined; update: (next: Fdl) => void; title?: string }) {
  const [now, setNow] = useState<Base>();
  const [error, setError] = useState("");
  const [round, setRound] = useState(0);
  const there = federations.value.get(base.uid)?.generation;
  useEffect(() => {
    setError("");
    readBase(base.uid).then(setNow, (err: unknown) => setError(message(err)));
  }, [base, there, round]);
  const accept = (next: Fdl) => {
    if (!now) return;
    rebase?.(now);
    update(next);
  };
  if (error) return <Failure error={error} retry={() => setRound(round + 1)} />;
  if (!now) return <Loading what="what was changed" />;
  const same = now.generation === base.generation;
  return (
    <Card title={same ? "Its state changed, its definition did not" : `Generation ${count(now.generation)} was made meanwhile`} flush>
      <div class="pad" role="alert">{title && <p>{title}</p>}<p>{same ? "Look at the plan again." : "Nothing of yours was written. This is what it changed in the definition that you began with:"}</p></div>
      {!same && <Diff before={base.text} after={now.text} same="Nothing but secrets." />}
      <div class="dialog-foot pad">
        {!same && <button type="button" class="button" onClick={() => accept(new Fdl(now.text))}>Drop mine, begin with theirs</button>}
        <button type="button" class="button primary" onClick={() => accept(new Fdl(text))}>{same ? "Go on" : "Keep mine, and show what it undoes"}</button>
      </div>
    </Card>
  );
}
