import { effect } from "@preact/signals";
import { me } from "../session/session";

/** What was typed and not sent, by the uid of the federation that it changes; for one user alone. */
const drafts = new Map<string, string>();
let of = "";

effect(() => {
  const subject = me.value?.subject;
  if (subject === undefined || subject === of) return;
  drafts.clear();
  of = subject;
});

export function draft(uid: string): string | undefined {
  return drafts.get(uid);
}

/** keep keeps a text in the memory of the page; undefined forgets it. */
export function keep(uid: string, text: string | undefined): void {
  if (text === undefined) drafts.delete(uid);
  else drafts.set(uid, text);
}

const key = "oscarfed-drafts";

/** secretive is in a text that may hold a secret, as docs/fdl.md names them. */
const secretive = /secret|token|password|headers|key/i;

/** stow keeps the drafts while the page is left for an issuer; one that may hold a secret is not. */
export function stow(): void {
  const kept = [...drafts].filter(([, text]) => !secretive.test(text));
  if (kept.length === 0) return;
  try {
    sessionStorage.setItem(key, JSON.stringify({ of, kept }));
  } catch {
    // There is no room for so much; the login goes on without it.
  }
}

/** unstow takes them back into memory; who logs in as another loses them. */
export function unstow(): void {
  const stored = sessionStorage.getItem(key);
  sessionStorage.removeItem(key);
  if (!stored) return;
  const from = JSON.parse(stored) as { of: string; kept: [string, string][] };
  of = from.of;
  for (const [uid, text] of from.kept) drafts.set(uid, text);
}
