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
