import { useState } from "preact/hooks";
import { Copy, Dialog } from "../parts/parts";

/** Join makes the command that registers a cluster; it asks for a token by itself. */
export function Join({ close }: { close: () => void }) {
  const [id, setId] = useState("");
  const [endpoint, setEndpoint] = useState("");
  const command = `oscarfed cluster join ${quote(id || "oscar-cluster-d")} ${quote(endpoint || "https://oscar-d.example.org")}`;
  return (
    <Dialog title="Join a cluster" close={close}>
      <p class="muted">The command registers the cluster and prints what to run beside its OSCAR within 15 minutes.</p>
      <label>
        Name
        <input value={id} placeholder="oscar-cluster-d" spellcheck={false} autocapitalize="none" onInput={(e) => setId(e.currentTarget.value)} />
      </label>
      <label>
        Address of its OSCAR
        <input value={endpoint} placeholder="https://oscar-d.example.org" inputMode="url" spellcheck={false} onInput={(e) => setEndpoint(e.currentTarget.value)} />
      </label>
      <pre class="command" tabIndex={0} aria-label="Command"><code>{command}</code></pre>
      <div class="dialog-foot">
        <Copy text={command} label="Copy the command" />
        <button type="button" class="button" onClick={close}>Close</button>
      </div>
    </Dialog>
  );
}

/** quote makes one word of a shell. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
