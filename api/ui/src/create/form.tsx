import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { clusterList } from "../live/store";
import { clusterState } from "../live/trouble";
import { words } from "../parts/state";
import { ClusterPicker } from "./clusters";
import type { Fdl, Message, Path } from "./fdl";

/** mostScript is what a script may have, in bytes. */
const mostScript = 1 << 20;

const topologies = [
  { value: "none", text: "None", help: "each by itself" },
  { value: "star", text: "Star", help: "the coordinator and each member list one another" },
  { value: "tree", text: "Tree", help: "OSCAR’s older word for star" },
  { value: "mesh", text: "Mesh", help: "everybody lists everybody" },
];

const shownKeys = new Set(["name", "cluster_id", "image", "cpu", "memory", "script", "federation", "input", "output"]);

interface Props {
  fdl: Fdl;
  at: number;
  /** change says that the service is there: its name and coordinator stay. */
  change: boolean;
  errors: Message[];
  update: (next: Fdl) => void;
}

interface Member { type?: string; cluster_id?: string; service_name?: string }

/** Form shows the keys that most services have; all others stay as the FDL has them. */
export function Form({ fdl, at, change, errors, update }: Props) {
  const service = fdl.service(at);
  const name = String(fdl.get(at, ["name"]) ?? "");
  const cluster = fdl.cluster(at);
  const members = list<Member>(fdl.get(at, ["federation", "members"]));
  const topology = String(fdl.get(at, ["federation", "topology"]) ?? (members.length > 0 ? "" : "none")).toLowerCase();
  const set = (path: Path, value: unknown) => update(fdl.with(at, path, value));
  const text = (path: Path) => String(fdl.get(at, path) ?? "");
  const error = (path: string) => errors.find((e) => e.path.toLowerCase() === path)?.text;
  const below = (path: string) => errors.find((e) => e.path.toLowerCase().startsWith(path))?.text;
  const others = Object.keys(service).filter((k) => !shownKeys.has(k.toLowerCase()));

  const rename = (to: string) => {
    let next = fdl.with(at, ["name"], to);
    members.forEach((m, i) => {
      if (m.service_name === name && (m.type ?? "oscar") === "oscar") next = next.with(at, ["federation", "members", i, "service_name"], to);
    });
    update(next);
  };
  const toggle = (id: string, chosen: boolean) => {
    if (!chosen) {
      let next = fdl;
      for (let i = members.length - 1; i >= 0; i--) if (members[i]?.cluster_id === id) next = next.with(at, ["federation", "members", i], undefined);
      update(next);
      return;
    }
    const member = { type: "oscar", cluster_id: id, service_name: name, priority: 0 };
    const next = fdl.with(at, ["federation", "members", members.length], member);
    update(topology === "none" || topology === "" ? next.with(at, ["federation", "topology"], "star") : next);
  };
  const coordinate = (id: string) => {
    let next = fdl.withCluster(at, id);
    const same = members.findIndex((m) => m.cluster_id === id && m.service_name === name);
    if (id && same >= 0) next = next.with(at, ["federation", "members", same], undefined);
    update(next);
  };
  const chosen = new Set(members.filter((m) => (m.type ?? "oscar") === "oscar").map((m) => m.cluster_id ?? ""));
  const endpoints = members.length - members.filter((m) => (m.type ?? "oscar") === "oscar").length;

  return (
    <div class="form">
      <Field id="name" label="Name" error={error("name")} help={change ? "A service keeps its name." : ""}>
        <input id="f-name" value={name} readOnly={change} spellcheck={false} autocapitalize="none" autocomplete="off" placeholder="plant-classifier" {...described("name", error("name"))} onInput={(e) => rename(e.currentTarget.value)} />
      </Field>
      <Field id="cluster" label="Coordinator" error={error("cluster_id")} help={change ? "A service keeps its coordinator." : "It takes the jobs first, and its MinIO has the inputs."}>
        <select id="f-cluster" value={cluster} disabled={change} {...described("cluster", error("cluster_id"))} onChange={(e) => coordinate(e.currentTarget.value)}>
          <option value="">The default cluster</option>
          {cluster && !clusterList.value.some((c) => c.cluster_id === cluster) && <option value={cluster}>{cluster}, not one that you may see</option>}
          {clusterList.value.map((c) => <option key={c.cluster_id} value={c.cluster_id}>{c.cluster_id}{clusterState(c) === "active" ? "" : `, ${words(clusterState(c))}`}</option>)}
        </select>
      </Field>
      <Field id="image" label="Image" error={error("image")}>
        <input id="f-image" value={text(["image"])} spellcheck={false} autocapitalize="none" autocomplete="off" placeholder="ghcr.io/grycap/imagemagick:latest" {...described("image", error("image"))} onInput={(e) => set(["image"], e.currentTarget.value)} />
      </Field>
      <div class="pair">
        <Field id="cpu" label="CPU" error={error("cpu")} help="Cores, as 0.5">
          <input id="f-cpu" value={text(["cpu"])} spellcheck={false} autocomplete="off" {...described("cpu", error("cpu"), true)} onInput={(e) => set(["cpu"], e.currentTarget.value || undefined)} />
        </Field>
        <Field id="memory" label="Memory" error={error("memory")} help="As 512Mi or 2Gi">
          <input id="f-memory" value={text(["memory"])} spellcheck={false} autocomplete="off" {...described("memory", error("memory"), true)} onInput={(e) => set(["memory"], e.currentTarget.value || undefined)} />
        </Field>
      </div>
      <Script fdl={fdl} at={at} error={error("script")} set={(v) => set(["script"], v)} />
      <Storage legend="Inputs" help="A file that is put there starts a job." values={list(fdl.get(at, ["input"]))} path="input" error={below("input")} set={set} />
      <Storage legend="Outputs" help="" values={list(fdl.get(at, ["output"]))} path="output" error={below("output")} set={set} />
      <ClusterPicker legend="Also on" chosen={chosen} without={new Set([cluster])} toggle={toggle} error={below("federation.members")} />
      {endpoints > 0 && <p class="small muted">{endpoints === 1 ? "One member is an endpoint" : `${endpoints} members are endpoints`}: see the FDL.</p>}
      <fieldset class="choices" aria-describedby={error("federation.topology") ? "topology-error" : undefined}>
        <legend>Topology</legend>
        {topologies.map((t) => (
          <label key={t.value} class="check">
            <input type="radio" name="topology" value={t.value} checked={topology === t.value} onChange={() => set(["federation", "topology"], t.value)} />
            <span>{t.text} <span class="small muted">{t.help}</span></span>
          </label>
        ))}
        {error("federation.topology") && <p class="field-error" id="topology-error">{error("federation.topology")}</p>}
      </fieldset>
      <div class="pair">
        <Choice id="delegation" label="Jobs go to" value={text(["federation", "delegation"])} error={error("federation.delegation")} first="Static: by priority" options={["static", "random", "load-based", "topsis"]} set={(v) => set(["federation", "delegation"], v)} />
        {!change && <Choice id="deployment" label="Deployment" value={text(["federation", "deployment"])} error={error("federation.deployment")} first="Transactional: on all or none" options={["transactional", "best-effort"]} set={(v) => set(["federation", "deployment"], v)} />}
      </div>
      {others.length > 0 && <p class="small muted">Only in the FDL: {others.join(", ")}.</p>}
    </div>
  );
}

function described(id: string, error: string | undefined, help = false) {
  const by = [error && `${id}-error`, help && `${id}-help`].filter(Boolean).join(" ");
  return { "aria-invalid": error !== undefined, ...(by ? { "aria-describedby": by } : {}) };
}

function Field({ id, label, error, help, children }: { id: string; label: string; error: string | undefined; help?: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={`f-${id}`}>{label}</label>
      {children}
      {help && <span class="small muted" id={`${id}-help`}>{help}</span>}
      {error && <span class="field-error" id={`${id}-error`}>{error}</span>}
    </div>
  );
}

function Choice({ id, label, value, error, first, options, set }: { id: string; label: string; value: string; error: string | undefined; first: string; options: string[]; set: (v: string | undefined) => void }) {
  const known = value === "" || options.includes(value.toLowerCase());
  return (
    <Field id={id} label={label} error={error}>
      <select id={`f-${id}`} value={known ? value.toLowerCase() : value} {...described(id, error)} onChange={(e) => set(e.currentTarget.value || undefined)}>
        <option value="">{first}</option>
        {options.map((o) => <option key={o} value={o}>{o}</option>)}
        {!known && <option value={value}>{value}</option>}
      </select>
    </Field>
  );
}

/** Script is its text, or that of a file of the reader's machine. */
function Script({ fdl, at, error, set }: { fdl: Fdl; at: number; error: string | undefined; set: (v: string | undefined) => void }) {
  const [problem, setProblem] = useState("");
  const file = fdl.scriptFile(at);
  const value = file ? "" : String(fdl.get(at, ["script"]) ?? "").replace(/\n$/, "");
  const take = async (f: File | undefined) => {
    setProblem("");
    if (!f) return;
    if (f.size > mostScript) {
      setProblem("The file is larger than 1 MiB, which is more than a definition may have.");
      return;
    }
    try {
      set(new TextDecoder("utf-8", { fatal: true }).decode(await f.arrayBuffer()).replaceAll("\r\n", "\n"));
    } catch {
      setProblem("The file is no text in UTF-8.");
    }
  };
  const wrong = error ?? (problem || (file ? `It names the file ${file}, which is not here. Take the file, or write the script.` : undefined));
  return (
    <Field id="script" label="Script" error={wrong}>
      <textarea id="f-script" class="mono script" rows={6} value={value} spellcheck={false} autocapitalize="none" autocomplete="off" wrap="off" {...described("script", wrong)} onInput={(e) => set(e.currentTarget.value ? `${e.currentTarget.value}\n` : "")} />
      <label class="file"><span class="hidden">Script from a file</span><input type="file" onChange={(e) => { void take(e.currentTarget.files?.[0]); e.currentTarget.value = ""; }} /></label>
    </Field>
  );
}

interface IO { storage_provider?: string; path?: string }

/** Storage is a list of inputs or outputs. */
function Storage({ legend, help, values, path, error, set }: { legend: string; help: string; values: IO[]; path: "input" | "output"; error: string | undefined; set: (path: Path, value: unknown) => void }) {
  const one = legend.slice(0, -1);
  return (
    <fieldset class="storage" aria-describedby={error ? `${path}-error` : undefined}>
      <legend>{legend}</legend>
      {help && <p class="small muted">{help}</p>}
      {values.map((v, i) => (
        <div class="storage-row" key={i}>
          <input aria-label={`${one} ${i + 1}: storage`} value={v?.storage_provider ?? ""} placeholder="minio.default" spellcheck={false} autocapitalize="none" onInput={(e) => set([path, i, "storage_provider"], e.currentTarget.value)} />
          <input aria-label={`${one} ${i + 1}: bucket and folder`} value={v?.path ?? ""} placeholder="bucket/folder" spellcheck={false} autocapitalize="none" onInput={(e) => set([path, i, "path"], e.currentTarget.value)} />
          <button type="button" class="button small" aria-label={`Remove ${one.toLowerCase()} ${i + 1}`} onClick={() => set(values.length === 1 ? [path] : [path, i], undefined)}>Remove</button>
        </div>
      ))}
      <div><button type="button" class="button small" onClick={() => set([path, values.length], { storage_provider: "minio.default", path: "" })}>Add {path === "input" ? "an input" : "an output"}</button></div>
      {error && <p class="field-error" id={`${path}-error`}>{error}</p>}
    </fieldset>
  );
}

function list<T>(value: unknown): T[] {
  return Array.isArray(value) ? (value as T[]) : [];
}
