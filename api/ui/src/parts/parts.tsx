import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { message } from "../api/client";

/** Page is one view: its title is the first heading, which the keyboard's focus goes to. */
export function Page({ title, over, actions, children }: { title: string; over?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · oscarfed`;
  }, [title]);
  return (
    <div class="page">
      <header class="page-head">
        <div class="page-title">
          {over && <p class="over">{over}</p>}
          <h1 ref={heading} tabIndex={-1}>{title}</h1>
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Card({ title, aside, children, flush }: { title?: string; aside?: ComponentChildren | undefined; children: ComponentChildren; flush?: boolean }) {
  return (
    <section class={flush ? "card flush" : "card"}>
      {title && (
        <header class="card-head">
          <h2>{title}</h2>
          {aside && <div class="aside">{aside}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

/** Empty says why there is nothing, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="muted">{children}</div>}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return <p class="loading" role="status">Loading {what} …</p>;
}

export function Failure({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div class="note bad" role="alert">
      <p>{error}</p>
      {retry && <button type="button" class="button small" onClick={retry}>Try again</button>}
    </div>
  );
}

/** Bar shows parts of a whole; its label says the same in words. */
export function Bar({ parts, whole, label }: { parts: { value: number; kind: string }[]; whole: number; label: string }) {
  return (
    <div class="bar" role="img" aria-label={label}>
      {whole > 0 && parts.map((p) => <span key={p.kind} class={p.kind} style={{ width: `${Math.max(0, Math.min(100, (100 * p.value) / whole))}%` }} />)}
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return <button type="button" class="button small" onClick={() => void copy()}>{done ? "Copied" : label}</button>;
}

/** Dialog asks before something is done; Escape closes it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current;
    d?.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onCancel={close} onClose={close}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

/** useAction runs what a button does, once at a time, and keeps its error. */
export function useAction(): { busy: boolean; error: string; run: (what: () => Promise<void>) => void; reset: () => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const run = (what: () => Promise<void>) => {
    if (busy) return;
    setBusy(true);
    setError("");
    what()
      .catch((err: unknown) => setError(message(err)))
      .finally(() => setBusy(false));
  };
  return { busy, error, run, reset: () => setError("") };
}

/** Tabs are links: each has an address. */
export function Tabs({ tabs, current }: { tabs: { href: string; name: string; label: string }[]; current: string }) {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      {tabs.map((t) => <a key={t.href} href={t.href} aria-current={t.name === current ? "page" : undefined}>{t.label}</a>)}
    </nav>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M16 16 8.5 9.5M16 16l8-5.5M16 16l-1 9" />
      <circle cx="16" cy="16" r="4.5" /><circle cx="8" cy="9" r="3" /><circle cx="24.5" cy="10" r="3" /><circle cx="15" cy="25.5" r="3" />
    </svg>
  );
}
