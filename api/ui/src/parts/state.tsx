/** Tone is how a state is drawn: a colour and a shape, so that colour alone says nothing. */
export type Tone = "ok" | "busy" | "warn" | "bad" | "idle";

const tones: Record<string, Tone> = {
  // federations
  ready: "ok", preparing: "busy", applying: "busy", changing: "busy", rolling_back: "warn", rolled_back: "bad",
  aborted: "bad", deleting: "busy", degraded: "warn",
  // replicas
  prepared: "busy", pending: "busy", refused: "bad", failed: "bad", drifted: "warn", held: "warn", wedged: "bad",
  deleted: "idle", unreachable: "bad",
  // clusters
  active: "ok", alive: "ok", away: "bad", cordoned: "idle", paused: "idle", revoked: "bad", removing: "busy", trouble: "warn",
  // jobs
  queued: "idle", assigned: "busy", claimed: "busy", submitting: "busy", submitted: "busy", running: "busy",
  uncertain: "warn", succeeded: "ok", cancelled: "idle", vanished: "bad", parked: "warn", returned: "idle",
  // the audit
  accepted: "busy", done: "ok", unknown: "warn",
};

export function toneOf(state: string): Tone {
  return tones[state] ?? "idle";
}

const ranks: Tone[] = ["bad", "warn", "busy", "idle", "ok"];

/** rankOf orders states: what a person should look at comes first. */
export function rankOf(state: string): number {
  return ranks.indexOf(toneOf(state));
}

export function words(state: string): string {
  return state.replaceAll("_", " ");
}

/** Mark is the shape of a tone; the text beside it says the same. */
export function Mark({ tone }: { tone: Tone }) {
  return (
    <svg class={`mark ${tone}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {tone === "ok" && <><circle cx="8" cy="8" r="7" /><path class="on" d="m4.8 8.3 2.2 2.2 4.2-4.6" /></>}
      {tone === "busy" && <><circle class="ring" cx="8" cy="8" r="6" /><path class="ring" d="M8 4.6V8l2.2 1.6" /></>}
      {tone === "warn" && <><path d="M8 1.2 15.4 14.4H.6Z" /><path class="on" d="M8 6v3.6M8 12v.1" /></>}
      {tone === "bad" && <><path d="M5 .9h6L15.1 5v6L11 15.1H5L.9 11V5Z" /><path class="on" d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8" /></>}
      {tone === "idle" && <><circle class="ring" cx="8" cy="8" r="6" /><path class="ring" d="M5.2 8h5.6" /></>}
    </svg>
  );
}

export function State({ state, label }: { state: string; label?: string }) {
  const tone = toneOf(state);
  return (
    <span class={`state ${tone}`}>
      <Mark tone={tone} />
      {label ?? words(state)}
    </span>
  );
}
