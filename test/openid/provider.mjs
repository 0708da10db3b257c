// An OpenID provider for the tests: node-oidc-provider with the paths, the access
// tokens and the userinfo that a Keycloak has, and users whom a test makes.
//
//   node provider.mjs FOLDER     with FOLDER/node_modules as package-lock.json says
//
// It listens on a free port of 127.0.0.1, prints one line of JSON with its address, and
// ends when its standard input does. Each realm is an issuer of its own below
// /realms/<name>. A login is by the request's login_hint, without a page. A resource
// https://<name>.example asks for an access token with audience <name>.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';

// Node.js 20 has all that the provider needs but this.
URL.parse ??= (text, base) => {
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
};
console.info = console.log = console.error; // standard output has the one line

const resolve = createRequire(`${process.argv[2]}/`).resolve;
const { Provider, interactionPolicy } = await import(pathToFileURL(resolve('oidc-provider')));
const { createLocalJWKSet, jwtVerify } = await import(pathToFileURL(resolve('jose')));

const endpoints = '/protocol/openid-connect';
const scopes = 'openid profile groups offline_access';
const redirectUri = 'http://127.0.0.1/callback';
const native = { application_type: 'native', redirect_uris: [redirectUri], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] };

// The web page of the control plane, on whatever port. It names no resource.
const page = { ...native, client_id: 'page', redirect_uris: ['http://127.0.0.1/ui'], token_endpoint_auth_method: 'none' };

const policy = interactionPolicy.base();
policy.remove('consent');

const clients = [
  page,
  { ...native, client_id: 'oscarfed', token_endpoint_auth_method: 'none' },
  // Its refresh tokens are never replaced.
  { ...native, client_id: 'steady', token_endpoint_auth_method: 'none' },
  // What its secret has must be encoded on the way (RFC 6749 2.3.1).
  { ...native, client_id: 'confidential', client_secret: 's3cret:+ %/&=', token_endpoint_auth_method: 'client_secret_basic' },
];

// rsaKeys makes a pair that is read from its text. Node.js 20 may wait for itself for ever where a key that it has
// just made is exported: the garbage that its making left wants the lock of the export.
function rsaKeys() {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  return { privateKey: createPrivateKey(privateKey), publicKey: createPublicKey(privateKey) };
}

class Realm {
  constructor(origin, name) {
    this.prefix = `/realms/${name}`;
    this.users = new Map();
    this.issued = new Map();
    const { privateKey, publicKey } = rsaKeys();
    const kid = randomUUID();
    const keys = (key) => ({ keys: [{ ...key.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }] });
    this.provider = new Provider(origin + this.prefix, this.configuration(keys(privateKey)));
    this.provider.on('server_error', (_, error) => console.error(error));
    this.provider.on('grant.error', (_, error) => console.error(`${error.message}: ${error.error_detail ?? error.error_description}`));
    this.acceptJWT(createLocalJWKSet(keys(publicKey)));
    this.handler = this.provider.callback();
  }

  configuration(jwks) {
    return {
      jwks,
      clientBasedCORS: (_, __, client) => client.clientId === page.client_id,
      clients,
      cookies: { keys: [randomBytes(32).toString('hex')] },
      routes: {
        authorization: `${endpoints}/auth`,
        token: `${endpoints}/token`,
        userinfo: `${endpoints}/userinfo`,
        jwks: `${endpoints}/certs`,
        revocation: `${endpoints}/revoke`,
      },
      claims: {
        openid: ['sub'],
        profile: ['name'],
        groups: ['group_membership', 'entitlements', 'realm_access'],
      },
      scopes: scopes.split(' '),
      ttl: { AccessToken: 3600, AuthorizationCode: 60, Grant: 86400, IdToken: 3600, Interaction: 600, RefreshToken: 86400, Session: 86400 },
      rotateRefreshToken: ({ oidc }) => oidc.client.clientId !== 'steady',
      issueRefreshToken: () => true,
      expiresWithSession: () => false,
      findAccount: (_, sub) => {
        const claims = this.users.get(sub);
        return claims && { accountId: sub, claims: () => ({ ...claims, sub: claims.sub ?? sub }) };
      },
      // Nobody is asked for his consent, and each login has a grant of its own.
      loadExistingGrant: async ({ oidc }) => {
        const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
        grant.addOIDCScope(scopes);
        if (oidc.params.resource) grant.addResourceScope(oidc.params.resource, scopes);
        await grant.save();
        return grant;
      },
      interactions: { policy, url: (_, interaction) => `${this.prefix}/login/${interaction.uid}` },
      features: {
        devInteractions: { enabled: false },
        revocation: { enabled: true },
        resourceIndicators: {
          enabled: true,
          useGrantedResource: () => true,
          defaultResource: ({ oidc }) => (oidc.client?.clientId === page.client_id ? 'https://oscar.example' : undefined),
          getResourceServerInfo: (_, resource) => ({
            audience: new URL(resource).hostname.replace(/\.example$/, ''),
            scope: scopes,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          }),
        },
      },
    };
  }

  // acceptJWT lets the provider's own endpoints take its JWTs, as a Keycloak's do: by
  // itself it accepts there only what it has stored, and JWTs it does not store.
  acceptJWT(keys) {
    const { AccessToken, issuer } = this.provider;
    this.provider.on('access_token.issued', (token) => this.issued.set(token.jti, token));
    const find = AccessToken.find.bind(AccessToken);
    AccessToken.find = async (value, ...rest) => {
      let jti;
      try {
        ({ payload: { jti } } = await jwtVerify(value, keys, { issuer, typ: 'at+jwt' }));
      } catch {
        return find(value, ...rest);
      }
      const token = this.issued.get(jti);
      if (!token) return undefined;
      const known = new AccessToken({ ...token });
      known.aud = undefined; // it is for this endpoint, too
      return known;
    };
  }

  async serve(req, res) {
    req.originalUrl = req.url;
    req.url = req.url.slice(this.prefix.length) || '/';
    if (!req.url.startsWith('/login/')) return this.handler(req, res);
    const { params } = await this.provider.interactionDetails(req, res);
    // The page cannot know who comes: it is the user who was made last.
    if (params.client_id === page.client_id) params.login_hint ??= [...this.users.keys()].at(-1);
    if (!this.users.has(params.login_hint)) {
      return this.provider.interactionFinished(req, res, { error: 'access_denied', error_description: `no user ${params.login_hint}` });
    }
    return this.provider.interactionFinished(req, res, { login: { accountId: params.login_hint } });
  }
}

async function body(req) {
  const parts = [];
  for await (const part of req) parts.push(part);
  return Buffer.concat(parts).toString();
}

const realms = new Map();

const server = createServer(async (req, res) => {
  try {
    const [, top, name, sub] = req.url.split(/[/?]/);
    const realm = realms.get(name);
    if (top === 'realms' && realm) return await realm.serve(req, res);
    if (top === 'users' && realm && req.method === 'PUT') {
      realm.users.set(decodeURIComponent(sub), JSON.parse(await body(req)));
      return res.writeHead(204).end();
    }
    return res.writeHead(404).end();
  } catch (error) {
    console.error(error);
    if (!res.headersSent) res.writeHead(500);
    return res.end();
  }
});

server.listen(0, '127.0.0.1', () => {
  const origin = `http://127.0.0.1:${server.address().port}`;
  for (const name of ['science', 'egi']) realms.set(name, new Realm(origin, name));
  process.stdout.write(`${JSON.stringify({ origin })}\n`);
});

process.stdin.resume().on('close', () => process.exit(0));
