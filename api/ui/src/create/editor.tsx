import { useEffect, useRef } from "preact/hooks";
import { count } from "../parts/numbers";
import type { Message } from "./fdl";

interface Props {
  text: string;
  errors: Message[];
  warnings: Message[];
  disabled: boolean;
  change: (text: string) => void;
  /** go is the line to show; its count makes the same line a new wish. */
  go: { line: number } | undefined;
}

/** Editor is the text of an FDL with the numbers of its lines; those with a message are marked. */
export function Editor({ text, errors, warnings, disabled, change, go }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;
  const follow = () => {
    if (gutter.current && area.current) gutter.current.scrollTop = area.current.scrollTop;
  };
  useEffect(() => {
    const a = area.current;
    if (!go || !a) return;
    const all = text.split("\n");
    const start = all.slice(0, go.line - 1).reduce((n, l) => n + l.length + 1, 0);
    a.focus();
    a.setSelectionRange(start, start + (all[go.line - 1]?.length ?? 0));
    const height = a.scrollHeight / Math.max(1, lines);
    a.scrollTop = Math.max(0, (go.line - 4) * height);
  }, [go]);
  return (
    <div class="editor" style={{ "--lines": lines }}>
      <div class="editor-lines" ref={gutter} aria-hidden="true">
        <pre>{Array.from({ length: lines }, (_, i) => i + 1).join("\n")}{"\n\n"}</pre>
        {mark(warnings, "warn")}
        {mark(errors, "bad")}
      </div>
      <textarea
        ref={area} class="mono" aria-label="FDL" value={text} readOnly={disabled} spellcheck={false} autocapitalize="none" autocomplete="off" wrap="off"
        aria-invalid={errors.length > 0} onScroll={follow} onInput={(e) => change(e.currentTarget.value)}
      />
      {errors.length + warnings.length > 0 && (
        <p class="hidden" role="status">{count(errors.length)} lines with errors, {count(warnings.length)} with warnings</p>
      )}
    </div>
  );
}

function mark(messages: Message[], tone: string) {
  return [...new Set(messages.map((m) => m.line))].map((line) => <span key={`${tone}${line}`} class={`editor-mark ${tone}`} style={{ top: `calc(${line - 1} * var(--line-height) + 8px)` }}>{line}</span>);
}
