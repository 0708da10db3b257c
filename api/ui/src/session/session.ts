import { computed, signal } from "@preact/signals";
import type { WhoAmI } from "../api/types";
import { refresh, revoke, type Grant } from "./oidc";

/**
 * Session says who uses the page. It is in the memory of the page alone: a reload, or the end of
 * the tab, forgets it.
 */
export type Session = { kind: "password"; header: string } | { kind: "token"; grant: Grant };

export const session = signal<Session | undefined>(undefined);

/** notice is what the login form says about how the last session ended. */
export const notice = signal("");

/** me is who the control plane takes the user for; undefined until it has answered. */
export const me = signal<WhoAmI | undefined>(undefined);

export const administrator = computed(() => me.value?.administrator === true);

export const loggedIn = computed(() => session.value !== undefined);

/** early is how long before its end a token is renewed, in milliseconds. */
const early = 60_000;
let renewing: Promise<void> | undefined;

/** authorization is the header for a request now. Requests at the same time share one renewal. */
export async function authorization(): Promise<string | undefined> {
  const s = session.peek();
  if (!s) return undefined;
  if (s.kind === "password") return s.header;
  if (s.grant.expires - Date.now() < early && s.grant.refreshToken) {
    renewing ??= renew(s.grant).finally(() => (renewing = undefined));
    await renewing;
  }
  const now = session.peek();
  return now?.kind === "token" ? `Bearer ${now.grant.accessToken}` : undefined;
}

async function renew(grant: Grant): Promise<void> {
  try {
    const next = await refresh(grant);
    const s = session.peek();
    if (s?.kind === "token" && s.grant === grant) session.value = { ...s, grant: next };
    else void revoke(next); // the session ended meanwhile
  } catch {
    // The token may be good for some seconds more; then the API refuses it.
  }
}

/** basic is the header of a name and a password, in UTF-8. */
export function basic(user: string, password: string): string {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

/** sessionEnded is called when the API refuses the credentials. */
export function sessionEnded(): void {
  if (!session.peek()) return;
  session.value = undefined;
  me.value = undefined;
  notice.value = "Your session has ended. Log in again.";
}

/** enter begins a session if the control plane accepts it. */
export async function enter(s: Session): Promise<void> {
  const header = s.kind === "password" ? s.header : `Bearer ${s.grant.accessToken}`;
  let answer: Response;
  try {
    answer = await fetch("/system/whoami", { headers: { Authorization: header }, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch {
    throw new Error("The control plane does not answer. Try again in a moment.");
  }
  if (answer.status === 401) {
    throw new Error(s.kind === "password" ? "The control plane does not accept this name and password." : "The control plane does not accept the token of your issuer. Are you in a group that it lets in?");
  }
  if (!answer.ok) throw new Error(`The control plane answered ${answer.status}. Try again in a moment.`);
  me.value = (await answer.json()) as WhoAmI;
  notice.value = "";
  session.value = s;
}

/** logOut forgets the session, and revokes its tokens where the issuer can. */
export function logOut(): void {
  const s = session.peek();
  session.value = undefined;
  me.value = undefined;
  notice.value = "";
  if (s?.kind === "token") void revoke(s.grant);
}
