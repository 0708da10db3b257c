import { compareLines } from "./diff";

const signs = { same: " ", gone: "−", new: "+", skip: "" };
const spoken = { same: "", gone: "removed: ", new: "added: ", skip: "" };

/** Diff shows what differs between two texts; same is said when nothing does. */
export function Diff({ before, after, same = "Nothing differs but secrets, which are not kept." }: { before: string; after: string; same?: string }) {
  const lines = compareLines(before, after);
  if (!lines.some((l) => l.kind === "gone" || l.kind === "new")) return <p class="muted pad">{same}</p>;
  return (
    <pre class="diff" tabIndex={0} aria-label="Differences">
      {lines.map((l, i) => (
        <span key={i} class={l.kind}>{l.kind === "skip" ? `${l.text} lines are the same` : <><span aria-hidden="true">{signs[l.kind]} </span><span class="hidden">{spoken[l.kind]}</span>{l.text}</>}{"\n"}</span>
      ))}
    </pre>
  );
}
