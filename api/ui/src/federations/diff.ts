/** Line is one line of a comparison. */
export interface Line {
  kind: "same" | "gone" | "new" | "skip";
  text: string;
}

/** compareLines gives the shortest way from one text to another (longest common subsequence). */
export function compareLines(before: string, after: string, context = 3): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail);
  const y = b.slice(head, b.length - tail);
  return fold([...a.slice(0, head).map(same), ...middle(x, y), ...a.slice(a.length - tail).map(same)], context);
}

const same = (text: string): Line => ({ kind: "same", text });

function middle(x: string[], y: string[]): Line[] {
  const gone = x.map((text): Line => ({ kind: "gone", text }));
  const added = y.map((text): Line => ({ kind: "new", text }));
  if (x.length * y.length > 4_000_000) return [...gone, ...added]; // a whole script was replaced
  const width = y.length + 1;
  const length = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      length[i * width + j] = x[i] === y[j] ? (length[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(length[(i + 1) * width + j] ?? 0, length[i * width + j + 1] ?? 0);
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < x.length && j < y.length) {
    if (x[i] === y[j]) {
      lines.push(same(x[i] ?? ""));
      i++;
      j++;
    } else if ((length[(i + 1) * width + j] ?? 0) >= (length[i * width + j + 1] ?? 0)) lines.push(gone[i++] as Line);
    else lines.push(added[j++] as Line);
  }
  return [...lines, ...gone.slice(i), ...added.slice(j)];
}

/** fold leaves out what is the same far from any difference. */
function fold(lines: Line[], context: number): Line[] {
  const near = lines.map(() => false);
  lines.forEach((line, at) => {
    if (line.kind !== "same") near.fill(true, Math.max(0, at - context), at + context + 1);
  });
  const out: Line[] = [];
  let skipped = 0;
  lines.forEach((line, at) => {
    if (near[at]) {
      if (skipped > 0) out.push({ kind: "skip", text: String(skipped) });
      skipped = 0;
      out.push(line);
    } else skipped++;
  });
  if (skipped > 0) out.push({ kind: "skip", text: String(skipped) });
  return out;
}

/** definitionText writes a definition so that its lines can be compared: texts of several lines keep them. */
export function definitionText(value: unknown, indent = ""): string {
  if (typeof value === "string") {
    if (value.includes("\n")) return `|\n${value.replace(/\n$/, "").split("\n").map((l) => `${indent}${l}`).join("\n")}`;
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `\n${value.map((v) => `${indent}- ${definitionText(v, `${indent}  `).replace(/^\n\s*/, "")}`).join("\n")}`;
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) return "{}";
    return `\n${entries.map(([k, v]) => `${indent}${k}: ${definitionText(v, `${indent}  `)}`).join("\n").replaceAll(": \n", ":\n")}`;
  }
  return JSON.stringify(value);
}
