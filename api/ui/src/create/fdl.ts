import { isAlias, isMap, isPair, isScalar, isSeq, LineCounter, parseDocument, Scalar, type CollectionTag, type Document, type Node, type Pair, type ScalarTag, type YAMLMap } from "yaml";
import { isText } from "./keys";

/** Message is something to know of a line; path is that in the service, empty for the file. */
export interface Message {
  line: number;
  path: string;
  text: string;
  /** of is the service that it is about; undefined for the file. */
  of?: number;
}

/** Entry is one service of an FDL: node is its mapping, cluster the key above it. */
interface Entry {
  node: YAMLMap;
  key: Pair | undefined;
}

/** Path of a value in a service. */
export type Path = (string | number)[];

const defaultCluster = "default-cluster";
const mostNodes = 100_000;
const mostMerges = 50;
const tooMany = "The FDL has too many aliases.";

/**
 * Fdl is an FDL as it was written. A change of one value changes its lines alone: comments, order
 * and keys that nothing here knows stay.
 */
export class Fdl {
  readonly errors: Message[];
  private readonly doc: Document;
  private readonly lines = new LineCounter();
  private readonly entries: Entry[] = [];

  constructor(readonly text: string) {
    this.doc = parseDocument(text, { lineCounter: this.lines, prettyErrors: false, keepSourceTokens: false, merge: true, customTags: (tags) => tags.map(asWritten) as typeof tags });
    this.errors = this.doc.errors.map((e) => ({ line: this.lines.linePos(e.pos[0]).line, path: "", text: e.message }));
    try {
      if (this.errors.length === 0) this.findServices();
    } catch (err) {
      this.entries.length = 0; // nothing can be shown of them
      this.errors.push({ line: err instanceof NodeError ? this.lineOf(err.node) : 1, path: "", text: err instanceof NodeError ? err.message : tooMany });
    }
  }

  /** readable says whether there is a service that a form can show. */
  get readable(): boolean {
    return this.errors.length === 0;
  }

  get services(): string[] {
    return this.entries.map((_, i) => String(this.get(i, ["name"]) ?? "") || `Service ${i + 1}`);
  }

  private findServices(): void {
    const missing = (node: unknown, text: string) => this.errors.push({ line: this.lineOf(node), path: "", text });
    const root = this.doc.contents;
    const functions = resolve(child(root, "functions", this.doc), this.doc);
    const list = resolve(child(functions, "oscar", this.doc), this.doc);
    if (!isSeq(list)) {
      missing(functions ?? root, "an FDL holds its services in a list: functions: {oscar: [...]}");
      return;
    }
    for (const item of list.items) {
      if (!isMap(item)) {
        missing(item, "a service, or the id of a cluster with a service below it, belongs here");
        continue;
      }
      const named = resolve(child(item, "name", this.doc), this.doc);
      if (named !== undefined && !isMap(named)) this.entries.push({ node: item, key: undefined });
      else for (const pair of item.items) {
        if (isMerge(pair)) missing(pair.key, "<< brings the keys of a service, and no services");
        else if (isMap(pair.value)) this.entries.push({ node: pair.value, key: pair });
        else missing(pair.key, "a service belongs below the id of a cluster");
      }
    }
    if (this.entries.length === 0 && this.errors.length === 0) missing(list, "the list functions.oscar is empty");
    if (this.errors.length === 0) for (const at of this.entries.keys()) this.service(at); // what it cannot give is told now
  }

  cluster(at: number): string {
    const entry = this.entries[at];
    const key = entry?.key && isScalar(entry.key.key) ? String(entry.key.key.value) : undefined;
    const cluster = key ?? String(this.get(at, ["cluster_id"]) ?? "");
    return cluster === defaultCluster ? "" : cluster;
  }

  /** get gives a value of a service as it would be sent. */
  get(at: number, path: Path): unknown {
    let node: unknown = this.entries[at]?.node;
    for (const part of path) node = resolve(child(node, part, this.doc), this.doc);
    return node === undefined ? undefined : plain(node, path, { doc: this.doc, left: mostNodes });
  }

  /** scriptFile is the path of a file that a script names: only on the machine of the file's author. */
  scriptFile(at: number): string {
    const node = resolve(child(this.entries[at]?.node, "script", this.doc), this.doc);
    if (!isScalar(node) || typeof node.value !== "string" || node.value === "" || node.value.includes("\n")) return "";
    return node.type === Scalar.BLOCK_LITERAL || node.type === Scalar.BLOCK_FOLDED ? "" : node.value;
  }

  /** service is what is sent of one: with the storage and clusters of the whole file. */
  service(at: number): Record<string, unknown> {
    const entry = this.entries[at];
    const left = { doc: this.doc, left: mostNodes };
    const service = plain(entry?.node, [], left) as Record<string, unknown>;
    const cluster = this.cluster(at);
    for (const key of Object.keys(service)) if (key.toLowerCase() === "cluster_id") delete service[key];
    if (cluster) service.cluster_id = cluster;
    for (const key of ["storage_providers", "clusters"]) {
      const common = plain(child(this.doc.contents, key, this.doc), [key], left);
      if (isObject(common)) service[key] = merge(common, service[key], key === "clusters" ? 1 : 2);
    }
    return service;
  }

  /** with gives the FDL with another value; undefined takes the key away. */
  with(at: number, path: Path, value: unknown): Fdl {
    const next = new Fdl(this.text);
    const entry = next.entries[at];
    if (!entry) return this;
    next.change(entry, path, value);
    return new Fdl(next.doc.toString({ lineWidth: 0 }));
  }

  /** withCluster gives the FDL with the service on another cluster. */
  withCluster(at: number, cluster: string): Fdl {
    const entry = this.entries[at];
    if (!entry?.key) return this.with(at, ["cluster_id"], cluster || undefined);
    const next = new Fdl(this.text);
    const key = next.entries[at]?.key?.key;
    if (isScalar(key)) key.value = cluster || defaultCluster;
    return new Fdl(next.doc.toString({ lineWidth: 0 }));
  }

  /** change changes the entry alone: what an alias or << brings of elsewhere is copied into it first. */
  private change(entry: Entry, path: Path, value: unknown): void {
    let parent: unknown = entry.node;
    for (const [i, part] of path.slice(0, -1).entries()) {
      let next = child(parent, part);
      if (!isMap(next) && !isSeq(next)) {
        const shown = resolve(child(parent, part, this.doc), this.doc);
        const from = isMap(shown) || isSeq(shown) ? plain(shown, path.slice(0, i + 1), { doc: this.doc, left: mostNodes }) : undefined;
        if (value === undefined && from === undefined) return;
        const made = this.doc.createNode(from ?? (typeof path[i + 1] === "number" ? [] : {})) as Node;
        put(parent, part, made, this.doc);
        next = made;
      }
      if (isMap(next) || isSeq(next)) next.flow = false;
      parent = next;
    }
    const last = path.at(-1) ?? "";
    if (value === undefined) {
      if (isMap(parent)) {
        const pair = find(parent, String(last));
        if (pair) parent.delete(pair.key);
        if (child(parent, last, this.doc) !== undefined) put(parent, last, this.doc.createNode(null) as Node, this.doc); // << brings it
      } else if (isSeq(parent)) parent.delete(last);
      return;
    }
    const present = child(parent, last);
    if (isScalar(present) && !isObject(value) && !Array.isArray(value)) {
      present.value = value;
      const style = styleOf(last, value) ?? (present.type?.startsWith("BLOCK") ? Scalar.PLAIN : present.type);
      if (style) present.type = style;
      return;
    }
    const node = this.doc.createNode(value) as Node;
    const style = styleOf(last, value);
    if (isScalar(node) && style) node.type = style;
    put(parent, last, node, this.doc);
  }

  /** at gives the line of a path of a violation, or of what of it is there. */
  lineAt(index: number, path: string): number {
    const parts = parsePath(path);
    const entry = this.entries[index];
    let found = deepest(entry?.node, parts, this.doc);
    if (!found && (parts[0] === "storage_providers" || parts[0] === "clusters")) found = deepest(this.doc.contents, parts, this.doc);
    return this.lineOf(found ?? entry?.key?.key ?? entry?.node);
  }

  private lineOf(node: unknown): number {
    const range = (node as Node | undefined)?.range;
    return range ? this.lines.linePos(range[0]).line : 1;
  }
}

/** asWritten lets a number that nobody has changed stay as it was written: 0123 is a text where one is wanted, and some are long. */
function asWritten(tag: string | TagObject): string | TagObject {
  if (typeof tag === "string" || !/:(int|float)$/.test(tag.tag)) return tag;
  const { stringify } = tag as ScalarTag;
  return { ...(tag as ScalarTag), stringify: (node, ...more) => (node.source && Number(node.source) === node.value ? node.source : stringify?.(node, ...more) ?? String(node.value)) };
}
type TagObject = CollectionTag | ScalarTag;

/** write makes the FDL of one service, for somebody to change. */
export function write(service: Record<string, unknown>): string {
  const { cluster_id: cluster, token: _, ...rest } = service;
  const doc = parseDocument("functions:\n  oscar: []\n");
  const item = doc.createNode({ [String(cluster || defaultCluster)]: rest }) as YAMLMap;
  doc.setIn(["functions", "oscar"], doc.createNode([item]));
  const script = doc.getIn(["functions", "oscar", 0, String(cluster || defaultCluster), "script"], true);
  if (isScalar(script) && script.value) script.type = Scalar.BLOCK_LITERAL;
  return doc.toString({ lineWidth: 0 });
}

function styleOf(key: string | number, value: unknown): Scalar.Type | undefined {
  return typeof value === "string" && value !== "" && (key === "script" || value.includes("\n")) ? Scalar.BLOCK_LITERAL : undefined;
}

function put(parent: unknown, key: string | number, node: Node, doc: Document): void {
  if (isSeq(parent)) {
    if (typeof key === "number" && key < parent.items.length) parent.items[key] = node;
    else parent.items.push(node);
  } else if (isMap(parent)) {
    const pair = find(parent, String(key));
    if (pair) pair.value = node;
    else parent.items.push(doc.createPair(key, node));
  }
}

/** find gives the pair of a key, which OSCAR knows in any case; given the document, also one that << brings. */
function find(map: unknown, key: string, doc?: Document): Pair | undefined {
  if (!isMap(map)) return undefined;
  const items = doc ? pairsOf(map, { doc, left: mostNodes }) : map.items;
  return items.find((p) => nameOf(p) === key) ?? items.find((p) => nameOf(p).toLowerCase() === key.toLowerCase());
}

/** child gives what is below a node; given the document, also behind aliases, and what << brings. */
function child(given: unknown, part: string | number, doc?: Document): unknown {
  const node = doc ? resolve(given, doc) : given;
  if (isSeq(node)) return node.items[Number(part)];
  return find(node, String(part), doc)?.value ?? undefined;
}

function nameOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : "";
}

function isMerge(pair: Pair): boolean {
  return isScalar(pair.key) && typeof pair.key.value === "symbol";
}

/** NodeError is what cannot be read at a node. */
class NodeError extends Error {
  constructor(readonly node: unknown, text: string) {
    super(text);
  }
}

/** pairsOf gives the keys of a mapping as the API reads them: its own win over those that << brings, and of these the earlier. */
function pairsOf(map: YAMLMap, left: Left, deep = 0): Pair[] {
  const out = map.items.filter((p) => !isMerge(p));
  if (out.length === map.items.length) return out;
  if (deep > mostMerges || left.left-- <= 0) throw new Error(tooMany);
  const known = new Set(out.map(nameOf));
  for (const pair of map.items.filter(isMerge)) {
    const from = resolve(pair.value, left.doc);
    for (const item of isSeq(from) ? from.items : [from]) {
      const source = resolve(item, left.doc);
      if (!isMap(source)) throw new NodeError(pair.key, "<< takes a mapping or a list of mappings");
      for (const p of pairsOf(source, left, deep + 1)) {
        if (left.left-- <= 0) throw new Error(tooMany);
        if (!known.has(nameOf(p))) out.push(p);
        known.add(nameOf(p));
      }
    }
  }
  return out;
}

function resolve(node: unknown, doc: Document): unknown {
  if (!isAlias(node)) return node;
  const found = node.resolve(doc);
  if (!found) throw new NodeError(node, `there is no &${node.source} above *${node.source}`);
  return found;
}

/** deepest is the node of a path, or of the part of it that is there: a key where there is one. */
function deepest(given: unknown, parts: string[], doc: Document): unknown {
  let found: unknown;
  let node = given;
  for (const part of parts) {
    node = resolve(node, doc);
    if (isSeq(node)) found = node = node.items[Number(part)] ?? node;
    else {
      const pair = find(node, part, doc);
      if (!pair) break;
      found = pair.key;
      node = pair.value;
    }
  }
  return isPair(found) ? found.key : found;
}

/** parsePath takes a[0].b["c d"] apart. */
function parsePath(path: string): string[] {
  return [...path.matchAll(/\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.[\]]+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? "");
}

interface Left {
  doc: Document;
  /** left is how many nodes may follow: aliases multiply. */
  left: number;
}

/** plain is a node as JSON: where a text is wanted, a number or a word stays as it was written. */
function plain(given: unknown, path: Path, left: Left): unknown {
  if (left.left-- <= 0) throw new Error(tooMany);
  const node = resolve(given, left.doc);
  if (isMap(node)) {
    const out: Record<string, unknown> = {};
    for (const p of pairsOf(node, left)) {
      const key = isScalar(p.key) ? String(p.key.value) : String(p.key);
      Object.defineProperty(out, key, { value: plain(p.value, [...path, key], left), enumerable: true, configurable: true, writable: true });
    }
    return out;
  }
  if (isSeq(node)) return node.items.map((item, i) => plain(item, [...path, i], left));
  if (!isScalar(node)) return null;
  const value = node.value;
  if (value === null || value === undefined || typeof value === "string") return value ?? null;
  if (isText(path)) return node.source ?? String(value);
  return typeof value === "number" || typeof value === "boolean" ? value : String(value);
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

/** merge gives common with what own has of it; depth is how many levels of keys count. */
function merge(common: Record<string, unknown>, own: unknown, depth: number): Record<string, unknown> {
  if (!isObject(own)) return common;
  const out = { ...common, ...own };
  if (depth > 1) for (const key of Object.keys(own)) if (isObject(common[key])) out[key] = merge(common[key], own[key], depth - 1);
  return out;
}
