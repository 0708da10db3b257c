import { useEffect, useState } from "preact/hooks";
import { count } from "./numbers";

/** Cursors are the tokens of the pages up to the one that is shown. */
export interface Cursors {
  /** at is the token of the page that is shown; undefined for the first one. */
  at: string | undefined;
  page: number;
  newer: () => void;
  older: (next: string) => void;
  first: () => void;
}

/** useCursors begins at the first page, and again whenever key changes. */
export function useCursors(key: string): Cursors {
  const [pages, setPages] = useState<{ key: string; tokens: string[] }>({ key, tokens: [] });
  const tokens = pages.key === key ? pages.tokens : [];
  useEffect(() => setPages({ key, tokens: [] }), [key]);
  return {
    at: tokens.at(-1),
    page: tokens.length + 1,
    newer: () => setPages({ key, tokens: tokens.slice(0, -1) }),
    older: (next) => setPages({ key, tokens: [...tokens, next] }),
    first: () => setPages({ key, tokens: [] }),
  };
}

/** Pager goes from page to page; nothing when there is one alone. */
export function Pager({ cursors, next }: { cursors: Cursors; next: string | undefined }) {
  if (cursors.page === 1 && !next) return null;
  return (
    <div class="more pager">
      <button type="button" class="button small" disabled={cursors.page === 1} onClick={cursors.newer}>Newer</button>
      <span class="muted small">Page {count(cursors.page)}</span>
      <button type="button" class="button small" disabled={!next} onClick={() => next && cursors.older(next)}>Older</button>
    </div>
  );
}
