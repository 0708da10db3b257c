import type { LoginIssuer } from "../api/types";

/** Provider is an issuer of access tokens with a public client, as the control plane names it. */
export interface Provider {
  issuer: string;
  clientId: string;
  /** scopes to ask for; undefined for those that the issuer has of the usual ones. */
  scopes: string[] | undefined;
}

/** Grant is what an issuer has given to this page. It is kept in memory alone. */
export interface Grant {
  provider: Provider;
  accessToken: string;
  refreshToken: string | undefined;
  /** expires is in milliseconds since 1970. */
  expires: number;
}

interface Discovery {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  revocation_endpoint?: string;
  scopes_supported?: string[];
}

/** Asked is what has to outlive the way to the issuer and back. It holds no token. */
interface Asked {
  provider: Provider;
  state: string;
  verifier: string;
  hash: string;
}

const key = "oscarfed-login";

async function discover(issuer: string): Promise<Discovery> {
  const answer = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, { credentials: "omit", redirect: "error" });
  if (!answer.ok) throw new Error(`${issuer} answered ${answer.status}.`);
  const found = (await answer.json()) as Discovery;
  if (found.issuer !== issuer) throw new Error(`${issuer} says that it is ${found.issuer}.`);
  for (const url of [found.authorization_endpoint, found.token_endpoint]) {
    if (!secure(url)) throw new Error(`${issuer} names an address that is not HTTPS.`);
  }
  return found;
}

/** secure says whether an address is HTTPS, or one of this machine. */
function secure(address: string): boolean {
  const url = new URL(address);
  return url.protocol === "https:" || (url.protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname));
}

/** providers are the issuers with a client for this page. */
export async function providers(): Promise<Provider[]> {
  const answer = await fetch("/system/login", { credentials: "omit", redirect: "error" });
  if (!answer.ok) return [];
  const { issuers } = (await answer.json()) as { issuers: LoginIssuer[] };
  return issuers.flatMap((i) => (i.client_id ? [{ issuer: i.issuer, clientId: i.client_id, scopes: i.scopes }] : []));
}

// As LoginScopes and GroupScopes of internal/openid.
const loginScopes = new Set(["openid", "profile", "email", "offline_access"]);
const groupScopes = new Set(["groups", "entitlements", "eduperson_entitlement"]);

/** usualScopes are those to ask an issuer for that says which it has. */
function usualScopes({ scopes_supported: supported }: Discovery): string[] {
  if (!supported) return [...loginScopes];
  return [...loginScopes, ...groupScopes].filter((scope) => scope === "openid" || supported.includes(scope));
}

/** begin leads to the issuer (RFC 6749 4.1 with the proof key of RFC 7636); leaving is told before. */
export async function begin(provider: Provider, leaving: () => void): Promise<void> {
  const found = await discover(provider.issuer);
  const asked: Asked = { provider, state: random(), verifier: random(), hash: location.hash };
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(asked.verifier));
  sessionStorage.setItem(key, JSON.stringify(asked));
  const url = new URL(found.authorization_endpoint);
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: provider.clientId,
    redirect_uri: redirectURI(),
    scope: (provider.scopes ?? usualScopes(found)).join(" "),
    state: asked.state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  })) {
    url.searchParams.set(name, value);
  }
  leaving();
  location.assign(url);
}

/** finish takes what the issuer sent along with the way back; undefined when this is no way back. */
export async function finish(): Promise<Grant | undefined> {
  const answer = new URLSearchParams(location.search);
  const stored = sessionStorage.getItem(key);
  sessionStorage.removeItem(key);
  if (!answer.has("state") || (!answer.has("code") && !answer.has("error"))) return undefined;
  const asked = stored ? (JSON.parse(stored) as Asked) : undefined;
  // The code leaves the address and the history before anything else happens.
  history.replaceState(null, "", location.pathname + (asked?.hash ?? ""));
  window.dispatchEvent(new Event("hashchange")); // which replaceState does not send
  if (!asked || asked.state !== answer.get("state")) throw new Error("That login was not begun in this tab. Log in again.");
  const iss = answer.get("iss"); // RFC 9207
  if (iss !== null && iss !== asked.provider.issuer) throw new Error("Another issuer answered than was asked.");
  const error = answer.get("error");
  if (error !== null) throw new Error(`The issuer refused: ${answer.get("error_description") ?? error}`);
  return token(asked.provider, {
    grant_type: "authorization_code",
    code: answer.get("code") ?? "",
    redirect_uri: redirectURI(),
    code_verifier: asked.verifier,
  });
}

/** refresh renews a grant (RFC 6749 6). */
export async function refresh(grant: Grant): Promise<Grant> {
  const next = await token(grant.provider, { grant_type: "refresh_token", refresh_token: grant.refreshToken ?? "" });
  return { ...next, refreshToken: next.refreshToken ?? grant.refreshToken };
}

/** revoke ends a grant where the issuer can (RFC 7009). */
export async function revoke(grant: Grant): Promise<void> {
  const given = grant.refreshToken ?? grant.accessToken;
  try {
    const { revocation_endpoint: url } = await discover(grant.provider.issuer);
    if (url && secure(url)) await post(url, { token: given, client_id: grant.provider.clientId });
  } catch {
    // It ends by itself.
  }
}

async function token(provider: Provider, form: Record<string, string>): Promise<Grant> {
  const { token_endpoint: url } = await discover(provider.issuer);
  const answer = await post(url, { ...form, client_id: provider.clientId });
  const body = (await answer.json()) as { access_token?: string; refresh_token?: string; expires_in?: number; error_description?: string; error?: string };
  if (!answer.ok || !body.access_token) throw new Error(body.error_description ?? body.error ?? `The issuer answered ${answer.status}.`);
  return {
    provider,
    accessToken: body.access_token,
    refreshToken: body.refresh_token,
    expires: Date.now() + (body.expires_in ?? 300) * 1000,
  };
}

function post(url: string, form: Record<string, string>): Promise<Response> {
  return fetch(url, { method: "POST", body: new URLSearchParams(form), credentials: "omit", redirect: "error" });
}

function redirectURI(): string {
  return `${location.origin}/ui`;
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
