import { useEffect, useState } from "preact/hooks";
import { ApiError, message } from "../api/client";
import type { Info } from "../api/types";
import { Logo } from "../app";
import { basic, notice, session } from "./session";

/** Login asks for a password. It is tried once, and then kept by nothing but this page's memory. */
export function Login() {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Log in · oscarfed";
  }, []);
  const submit = async () => {
    if (busy) return;
    setBusy(true);
    setError("");
    try {
      const header = basic(user, password);
      const answer = await fetch("/system/info", { headers: { Authorization: header }, credentials: "omit", cache: "no-store", redirect: "error" });
      if (answer.status === 401) throw new ApiError(401, "The control plane does not accept this name and password.", undefined, 0);
      if (!answer.ok) throw new ApiError(answer.status, (await answer.text()).slice(0, 300), undefined, 0);
      (await answer.json()) as Info;
      notice.value = "";
      session.value = { kind: "password", user, header };
    } catch (err) {
      setError(err instanceof ApiError ? message(err) : "The control plane does not answer. Try again in a moment.");
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <div class="login-head"><Logo /><h1>Log in to oscarfed</h1></div>
        {notice.value && <p class="note" role="status">{notice.value}</p>}
        <label>
          Name
          <input name="username" autocomplete="username" autocapitalize="none" spellcheck={false} required value={user} onInput={(e) => setUser(e.currentTarget.value)} />
        </label>
        <label>
          Password
          <input name="password" type="password" autocomplete="current-password" required value={password} onInput={(e) => setPassword(e.currentTarget.value)} />
        </label>
        {error && <p class="note bad" role="alert">{error}</p>}
        <button type="submit" class="button primary" disabled={busy}>{busy ? "Logging in …" : "Log in"}</button>
        <p class="muted small">The password stays in the memory of this page. A reload forgets it.</p>
      </form>
    </main>
  );
}
