import { signal } from "@preact/signals";

/** now goes on every 15 s: ages need no more. */
const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 15_000);

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const steps: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400], ["hour", 3600], ["minute", 60]];

function age(at: number, to: number): string {
  const seconds = Math.round((at - to) / 1000);
  for (const [unit, length] of steps) {
    if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  }
  if (Math.abs(seconds) < 20) return "just now";
  return relative.format(seconds, "second");
}

/** Ago is a time as its distance from now; the time itself is in its title. */
export function Ago({ at }: { at: string | Date | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  const time = new Date(at);
  return (
    <time dateTime={time.toISOString()} title={absolute.format(time)}>
      {age(time.getTime(), now.value)}
    </time>
  );
}

export function clock(at: string): string {
  return short.format(new Date(at));
}

export function full(at: string): string {
  return absolute.format(new Date(at));
}

/** duration of milliseconds in words: 350 ms, 4.2 s, 3 min 5 s. */
export function duration(ms: number): string {
  const number = (n: number, digits = 0) => new Intl.NumberFormat(undefined, { maximumFractionDigits: digits }).format(n);
  if (ms < 1000) return `${number(Math.max(ms, 0))} ms`;
  if (ms < 60_000) return `${number(ms / 1000, 1)} s`;
  if (ms < 3_600_000) return `${number(Math.floor(ms / 60_000))} min ${number(Math.round((ms % 60_000) / 1000))} s`;
  return `${number(Math.floor(ms / 3_600_000))} h ${number(Math.round((ms % 3_600_000) / 60_000))} min`;
}
