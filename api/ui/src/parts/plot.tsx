import type { Tone } from "./state";

export interface Line {
  label: string;
  tone: Tone;
  /** values has null where there is nothing to measure. */
  values: readonly (number | null)[];
}

const width = 300;
const height = 64;
const spans = 6;

/** Plot draws lines over the same time. A screen reader is read a table of their greatest values instead. */
export function Plot({ title, lines, stepSeconds, show }: { title: string; lines: Line[]; stepSeconds: number; show: (n: number) => string }) {
  const most = Math.max(0, ...lines.flatMap((l) => l.values.map((v) => v ?? 0)));
  return (
    <figure class="plot">
      <figcaption class="plot-head">
        <span class="plot-title">{title}</span>
        {lines.map((l) => <span key={l.label} class={`plot-key ${l.tone}`}>{l.label} <strong>{latest(l, show)}</strong></span>)}
      </figcaption>
      <div class="plot-area">
        <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
          {lines.map((l) => pieces(l.values, most).map((d, i) => <path key={`${l.label} ${i}`} class={l.tone} d={d} />))}
        </svg>
        <span class="plot-most" aria-hidden="true">{show(most)}</span>
      </div>
      <div class="hidden"><table>
        <caption>{title}, the most in each span</caption>
        <thead><tr><th scope="col">Minutes ago</th>{lines.map((l) => <th key={l.label} scope="col">{l.label}</th>)}</tr></thead>
        <tbody>{table(lines, stepSeconds).map((row) => (
          <tr key={row.until}><th scope="row">{row.until} to {row.from}</th>{row.most.map((v, i) => <td key={lines[i]?.label}>{v === null ? "none" : show(v)}</td>)}</tr>
        ))}</tbody>
      </table></div>
    </figure>
  );
}

function latest(l: Line, show: (n: number) => string): string {
  const v = l.values.findLast((one) => one !== null);
  return v === undefined || v === null ? "–" : show(v);
}

/** pieces are the paths of one line, which is broken where it has no value. */
function pieces(values: readonly (number | null)[], most: number): string[] {
  const made: string[] = [];
  const x = width / Math.max(1, values.length - 1);
  let piece = "";
  values.forEach((v, i) => {
    if (v === null) {
      if (piece) made.push(piece);
      piece = "";
      return;
    }
    const y = height - 2 - (most > 0 ? (v / most) * (height - 4) : 0);
    // A value that stands alone is a line of no length, which its round cap shows.
    piece += piece ? `L${(i * x).toFixed(1)} ${y.toFixed(1)}` : `M${(i * x).toFixed(1)} ${y.toFixed(1)}h0`;
  });
  if (piece) made.push(piece);
  return made;
}

interface Span {
  from: number;
  until: number;
  most: (number | null)[];
}

/** table has the greatest value of each line in a few spans, the newest first. */
function table(lines: Line[], stepSeconds: number): Span[] {
  const n = lines[0]?.values.length ?? 0;
  const each = Math.ceil(n / spans);
  const rows: Span[] = [];
  for (let end = n; end > 0; end -= each) {
    const begin = Math.max(0, end - each);
    rows.push({
      until: Math.round(((n - end) * stepSeconds) / 60),
      from: Math.round(((n - begin) * stepSeconds) / 60),
      most: lines.map((l) => {
        const some = l.values.slice(begin, end).filter((v) => v !== null);
        return some.length > 0 ? Math.max(...some) : null;
      }),
    });
  }
  return rows;
}
