// Builds src/ into dist/, which api/ui embeds. The same source gives the same bytes: names of
// files have the hash of their content, and nothing has a date.
import { build } from "esbuild";
import { readdir, readFile, rm, writeFile, mkdir } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { basename, join } from "node:path";

const out = process.argv[2] ?? "dist";
const limit = 350 * 1024; // compressed, in bytes

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const result = await build({
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  bundle: true, format: "esm", splitting: true, minify: true, target: ["es2022"], legalComments: "none",
  jsx: "automatic", jsxImportSource: "preact",
  outdir: out, entryNames: "[name]-[hash]", chunkNames: "[name]-[hash]", assetNames: "[name]-[hash]",
  metafile: true, logLevel: "warning",
});
// The upload frame has an opaque origin, which may load no module: a script of its own.
const frame = await build({
  entryPoints: { upload: "src/data/frame.ts" }, bundle: true, format: "iife", minify: true, target: ["es2022"], legalComments: "none",
  outdir: out, entryNames: "[name]-[hash]", metafile: true, logLevel: "warning",
});
const made = [...Object.entries(result.metafile.outputs), ...Object.entries(frame.metafile.outputs)];
const named = (entry) => basename(made.find(([, o]) => o.entryPoint === entry)[0]);
const page = (await readFile("src/index.html", "utf8"))
  .replace("{{app}}", named("src/main.tsx"))
  .replace("{{style}}", named("src/style.css"));
await writeFile(join(out, "index.html"), page);
await writeFile(join(out, "upload.html"), (await readFile("src/data/frame.html", "utf8")).replace("{{frame}}", named("src/data/frame.ts")));
await writeFile(join(out, "icon.svg"), await readFile("src/icon.svg"));

let total = 0;
for (const name of (await readdir(out)).sort()) {
  const raw = await readFile(join(out, name));
  const size = gzipSync(raw, { level: 9 }).length;
  total += size;
  console.log(`${name.padEnd(32)} ${String(raw.length).padStart(8)} ${String(size).padStart(8)} compressed`);
}
console.log(`${"all".padEnd(32)} ${"".padStart(8)} ${String(total).padStart(8)} compressed, at most ${limit}`);
if (total > limit) process.exit(1);
