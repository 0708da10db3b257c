import { useLayoutEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { count } from "../parts/numbers";
import type { Message } from "./fdl";

/** Messages say what is wrong, each with the line that it leads to. They take the focus when they come. */
export function Messages({ title, messages, tone, go, children }: { title: string; messages: Message[]; tone: "bad" | "warn"; go: (m: Message) => void; children?: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (tone === "bad") ref.current?.focus();
  }, [messages, title]);
  return (
    <div ref={ref} class={`note ${tone} messages`} role={tone === "bad" ? "alert" : "status"} tabIndex={-1}>
      <p><strong>{title}</strong></p>
      {messages.length > 0 && (
        <ul>
          {messages.map((m, i) => (
            <li key={i}><button type="button" class="link" onClick={() => go(m)}>Line {count(m.line)}</button> <span class="break">{m.text}</span></li>
          ))}
        </ul>
      )}
      {children}
    </div>
  );
}
