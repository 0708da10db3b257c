import { useEffect, useState } from "preact/hooks";
import { message } from "../api/client";
import { stow, unstow } from "../create/draft";
import { Logo } from "../parts/parts";
import { begin, finish, providers, type Provider } from "./oidc";
import { basic, enter, notice } from "./session";

/** Login offers the issuers, and a password. A password is kept by nothing but the page's memory. */
export function Login() {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [issuers, setIssuers] = useState<Provider[]>([]);
  const run = async (what: () => Promise<void>) => {
    setBusy(true);
    setError("");
    try {
      await what();
    } catch (err) {
      setError(message(err));
    }
    setBusy(false);
  };
  useEffect(() => {
    document.title = "Log in · oscarfed";
    unstow();
    void providers().then(setIssuers, () => undefined);
    void run(async () => {
      const grant = await finish();
      if (grant) await enter({ kind: "token", grant });
    });
  }, []);
  const submit = () => run(() => enter({ kind: "password", header: basic(user, password) }));
  return (
    <main class="login">
      <form onSubmit={(e) => { e.preventDefault(); if (!busy) void submit(); }}>
        <div class="login-head"><Logo /><h1>Log in to oscarfed</h1></div>
        {notice.value && <p class="note" role="status">{notice.value}</p>}
        {error && <p class="note bad" role="alert">{error}</p>}
        {issuers.map((p) => (
          <button key={p.issuer} type="button" class="button primary" disabled={busy} onClick={() => void run(() => begin(p, stow))}>
            Log in at {new URL(p.issuer).host}
          </button>
        ))}
        {issuers.length > 0 && <p class="or">or with a password</p>}
        <label>
          Name
          <input name="username" autocomplete="username" autocapitalize="none" spellcheck={false} required value={user} onInput={(e) => setUser(e.currentTarget.value)} />
        </label>
        <label>
          Password
          <input name="password" type="password" autocomplete="current-password" required value={password} onInput={(e) => setPassword(e.currentTarget.value)} />
        </label>
        <button type="submit" class={issuers.length > 0 ? "button" : "button primary"} disabled={busy}>{busy ? "Logging in …" : "Log in"}</button>
        <p class="muted small">Passwords and tokens stay in the memory of this page. A reload forgets them.</p>
      </form>
    </main>
  );
}
