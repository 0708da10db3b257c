import { signal } from "@preact/signals";

/** Route is the address behind #: parts of a path, and a query. */
export interface Route {
  path: string[];
  query: URLSearchParams;
}

export const route = signal<Route>(parse(location.hash));

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** to is the address of a view. */
export function to(...path: string[]): string {
  return `#/${path.map(encodeURIComponent).join("/")}`;
}

/** refine changes the query of the present view, without a step in the history. */
export function refine(values: Record<string, string | undefined>): void {
  const query = new URLSearchParams(route.peek().query);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  history.replaceState(null, "", to(...route.peek().path) + (text ? `?${text}` : ""));
  route.value = parse(location.hash);
}

window.addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
