import { computed, signal } from "@preact/signals";
import { refresh, revoke, type Grant } from "./oidc";

/**
 * Session says who uses the page. It is in the memory of the page alone: a reload, or the end of
 * the tab, forgets it.
 */
export type Session = { kind: "password"; user: string; header: string } | { kind: "token"; user: string; grant: Grant };

export const session = signal<Session | undefined>(undefined);

/** notice is what the login form says about how the last session ended. */
export const notice = signal("");

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
  notice.value = "Your session has ended. Log in again.";
}

/** logOut forgets the session, and revokes its tokens where the issuer can. */
export function logOut(): void {
  const s = session.peek();
  session.value = undefined;
  notice.value = "";
  if (s?.kind === "token") void revoke(s.grant);
}
