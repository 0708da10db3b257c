import cytoscape from "cytoscape";
import { useEffect, useRef, useState } from "preact/hooks";
import { address, type Federation, type Replica, type Stats } from "../api/types";
import type { Handover } from "../live/handovers";
import { count } from "../parts/numbers";
import { to } from "../route";
import { toneOf, words, type Tone } from "../parts/state";

export type JobEdges = Stats["edges"];

function phaseOf(r: Replica): string {
  return r.type === "endpoint" ? "endpoint" : (r.status?.phase ?? "pending");
}

const shapes: Record<Tone, string> = { ok: "ellipse", busy: "ellipse", warn: "triangle", bad: "octagon", idle: "round-rectangle" };

/**
 * Graph draws who lists whom. What it shows is a table beside it, too: a screen reader and the
 * keyboard use that.
 */
export function Graph({ f, jobs, just }: { f: Federation; jobs: JobEdges; just: readonly Handover[] }) {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useRef<cytoscape.Core | undefined>(undefined);
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setDark(scheme.matches);
    scheme.addEventListener("change", changed);
    return () => scheme.removeEventListener("change", changed);
  }, []);
  // The layout is made anew only when members or edges are others.
  const structure = JSON.stringify([f.topology, f.coordinator, f.replicas.map(address), f.edges]);
  useEffect(() => {
    if (!box.current) return;
    const cy = cytoscape({
      container: box.current,
      elements: elements(f),
      style: style(f.replicas.length > manyMembers),
      layout: layout(f),
      minZoom: 0.15,
      maxZoom: 1.25,
      userZoomingEnabled: false,
      boxSelectionEnabled: false,
      autounselectify: true,
      pixelRatio: "auto",
    });
    cy.on("tap", "node", (e) => {
      const cluster: unknown = e.target.data("cluster");
      if (typeof cluster === "string" && cluster) location.hash = to("clusters", cluster);
    });
    drawn.current = cy;
    const resized = new ResizeObserver(() => {
      cy.resize();
      cy.fit(undefined, 36);
    });
    resized.observe(box.current);
    return () => {
      resized.disconnect();
      drawn.current = undefined;
      cy.destroy();
    };
  }, [structure, dark]);
  useEffect(() => {
    const cy = drawn.current;
    if (!cy) return;
    cy.batch(() => {
      for (const r of f.replicas) {
        const tone = toneOf(phaseOf(r));
        const node = cy.getElementById(address(r));
        if (node.data("tone") !== tone) node.data("tone", tone).classes(classes(f, r));
      }
    });
  }, [f]);
  useEffect(() => {
    const cy = drawn.current;
    if (!cy) return;
    const sums = handed(jobs);
    cy.batch(() => {
      for (const edge of cy.edges()) edge.data("width", widthOf(sums.get(pair(edge.data("source"), edge.data("target"))) ?? 0));
    });
  }, [structure, dark, jobs]);
  useEffect(() => {
    if (drawn.current) move(drawn.current, just);
  }, [just]);
  const few = f.replicas.length <= 30;
  return (
    <div class="graph-frame">
      <div ref={box} class={few ? "graph" : "graph tall"} aria-hidden="true" />
      <p class="legend small muted" aria-hidden="true">
        <span class="key coordinator">coordinator</span><span class="key line">lists → listed, the wider the more jobs went there</span>
      </p>
    </div>
  );
}

/** handed is how many jobs went either way between two members, by their pair. */
function handed(jobs: JobEdges): Map<string, number> {
  const sums = new Map<string, number>();
  for (const e of jobs) {
    const key = pair(e.from, e.to);
    sums.set(key, (sums.get(key) ?? 0) + e.jobs);
  }
  return sums;
}

/** pair names two members, whichever is first. */
function pair(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`;
}

/** widthOf grows with the logarithm, so that one busy member does not hide the others. */
function widthOf(jobs: number): number {
  return Math.min(10, 1.5 + 2 * Math.log10(1 + jobs));
}

/** moving is how long a job is seen on its way, in milliseconds, and mostMoving how many are at once. */
const moving = 1100;
const mostMoving = 60;

/** move shows jobs on their way: one mark for all that go the same way at one time. */
function move(cy: cytoscape.Core, just: readonly Handover[]): void {
  if (document.visibilityState !== "visible" || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const h of just.slice(0, Math.max(0, mostMoving - cy.nodes(".job").length))) {
    const from = cy.getElementById(h.from);
    const target = cy.getElementById(h.to);
    if (from.empty() || target.empty()) continue;
    const mark = cy.add({ group: "nodes", classes: "job", data: { label: h.jobs > 1 ? count(h.jobs) : "" }, position: { ...from.position() }, selectable: false, grabbable: false });
    mark.animate({ position: { ...target.position() } }, { duration: moving, easing: "ease-in-out", complete: () => void mark.remove() });
  }
}

function classes(f: Federation, r: Replica): string {
  const coordinator = address(r) === address(f.coordinator);
  return `${toneOf(phaseOf(r))}${coordinator ? " coordinator" : ""}`;
}

function elements(f: Federation): cytoscape.ElementDefinition[] {
  const known = new Set(f.replicas.map(address));
  const many = f.replicas.length > 40;
  const nodes = f.replicas.map((r): cytoscape.ElementDefinition => ({
    data: {
      id: address(r),
      label: many && address(r) !== address(f.coordinator) ? "" : r.type === "endpoint" ? hostOf(r.url) : r.cluster_id,
      cluster: r.type === "endpoint" ? "" : r.cluster_id,
      tone: toneOf(phaseOf(r)),
      phase: words(phaseOf(r)),
    },
    classes: classes(f, r),
  }));
  const pairs = new Set(f.edges.map(([a, b]) => `${a}\n${b}`));
  const edges = f.edges.flatMap(([from, target]): cytoscape.ElementDefinition[] => {
    if (!from || !target || !known.has(from) || !known.has(target)) return [];
    const both = pairs.has(`${target}\n${from}`);
    if (both && from > target) return []; // one line with two arrows
    return [{ data: { id: `${from}\n${target}`, source: from, target, width: widthOf(0) }, classes: both ? "both" : "" }];
  });
  return [...nodes, ...edges];
}

function hostOf(url: string | undefined): string {
  try {
    return new URL(url ?? "").host;
  } catch {
    return "endpoint";
  }
}

/** manyMembers is from where members stand on several rings. */
const manyMembers = 24;

function layout(f: Federation): cytoscape.LayoutOptions {
  const root = address(f.coordinator);
  if (f.topology === "tree") {
    return { name: "breadthfirst", directed: true, roots: [root], spacingFactor: 1.15, padding: 36, animate: false, nodeDimensionsIncludeLabels: true };
  }
  if (f.replicas.length > manyMembers) return { name: "preset", positions: rings(f, root), padding: 24 };
  return { name: "preset", positions: ellipse(f, root), padding: 36 };
}

/** ellipse puts the members around the middle, in which the coordinator of a star stands. */
function ellipse(f: Federation, root: string): cytoscape.NodePositionMap {
  const all = f.replicas.map(address);
  const middle = f.topology === "mesh" ? undefined : root;
  const around = all.filter((a) => a !== middle);
  const grow = Math.max(1, around.length / 12);
  const positions: cytoscape.NodePositionMap = middle ? { [middle]: { x: 0, y: 0 } } : {};
  around.forEach((a, i) => {
    const angle = (2 * Math.PI * i) / around.length - Math.PI / 2;
    positions[a] = { x: 300 * grow * Math.cos(angle), y: 120 * grow * Math.sin(angle) };
  });
  return positions;
}

/** rings puts the coordinator into the middle, and the others around it, as near as they fit. */
function rings(f: Federation, root: string): cytoscape.NodePositionMap {
  const gap = 46;
  const positions: cytoscape.NodePositionMap = { [root]: { x: 0, y: 0 } };
  const others = f.replicas.map(address).filter((a) => a !== root);
  for (let ring = 2; others.length > 0; ring++) {
    const radius = ring * gap;
    const here = others.splice(0, Math.floor((2 * Math.PI * radius) / gap));
    here.forEach((a, i) => {
      const angle = (2 * Math.PI * i) / here.length - Math.PI / 2;
      // An ellipse, as the frame is wider than high.
      positions[a] = { x: 1.7 * radius * Math.cos(angle), y: radius * Math.sin(angle) };
    });
  }
  return positions;
}

function style(many: boolean): cytoscape.StylesheetJson {
  const css = getComputedStyle(document.documentElement);
  const probe = document.createElement("span");
  document.body.append(probe);
  // A colour as the browser shows it: light-dark() means nothing to a canvas.
  const colour = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const tones = (["ok", "busy", "warn", "bad", "idle"] as Tone[]).map((tone) => ({
    selector: `node.${tone}`,
    style: { "background-color": colour(`--${tone}`), shape: shapes[tone] as cytoscape.Css.NodeShape },
  }));
  const made: cytoscape.StylesheetJson = [
    {
      selector: "node",
      style: {
        width: 26, height: 26, label: "data(label)", color: colour("--text"), "font-size": 12, "font-family": css.getPropertyValue("--font") || "sans-serif",
        "text-valign": "bottom", "text-margin-y": 6, "text-background-color": colour("--surface"), "text-background-opacity": 0.85, "text-background-padding": "2px",
        "border-width": 2, "border-color": colour("--surface"),
      },
    },
    ...tones,
    { selector: "node.coordinator", style: { width: 36, height: 36, "border-width": 4, "border-color": colour("--accent"), "border-style": "double", "font-weight": "bold" } },
    {
      selector: "edge",
      style: { width: "data(width)", "line-color": colour("--strong-line"), "target-arrow-color": colour("--strong-line"), "target-arrow-shape": "triangle", "curve-style": many ? "haystack" : "bezier", "arrow-scale": 0.9, opacity: many ? 0.35 : 1 },
    },
    {
      selector: "node.job",
      style: { width: 12, height: 12, shape: "ellipse", "background-color": colour("--accent"), "border-width": 2, "text-valign": "top", "text-margin-y": -2, "font-weight": "bold", events: "no", "z-index": 10 },
    },
    { selector: "edge.both", style: { "source-arrow-shape": "triangle", "source-arrow-color": colour("--strong-line") } },
  ];
  probe.remove();
  return made;
}
