// An OpenID provider of npm's `oidc-provider`, as a test configures it. Prints a line once it answers.
import { Provider } from 'oidc-provider';
import { createLocalJWKSet, jwtVerify } from 'jose';

const { port, keys, account, lifetime_s, clients } = JSON.parse(process.env.PROVIDER);
const issuer = `http://127.0.0.1:${port}`;
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const SCOPES = ['catalog', 'PRINCIPAL_ROLE:ALL'];

// a token is for the resource that is asked for, `urn:floecat` by default
const resource = (name) => ({
  scope: ['openid', ...SCOPES].join(' '),
  audience: name.replace('urn:', ''),
  accessTokenTTL: lifetime_s,
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: 'RS256' } },
});

const provider = new Provider(issuer, {
  clients: clients.map(({ id, secret }) => ({
    client_id: id,
    client_secret: secret,
    grant_types: ['client_credentials', EXCHANGE],
    redirect_uris: [],
    response_types: [],
  })),
  jwks: { keys },
  scopes: ['openid', ...SCOPES],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:floecat',
      getResourceServerInfo: (_ctx, name) => resource(name),
      useGrantedResource: () => true,
    },
  },
  extraTokenClaims: (_ctx, token) => ({
    tenant: { id: account },
    realm_access: { roles: clients.find(({ id }) => id === token.clientId).roles },
  }),
});

// RFC 8693: a token that this provider made, for whatever service, for one for Floecat
const published = createLocalJWKSet({ keys: keys.map(({ kty, n, e, kid }) => ({ kty, n, e, kid, alg: 'RS256' })) });
provider.registerGrantType(EXCHANGE, async (ctx) => {
  const { oidc } = ctx;
  await jwtVerify(oidc.params.subject_token, published, { issuer });
  const token = new oidc.provider.ClientCredentials({ client: oidc.client, scope: 'catalog' });
  token.resourceServer = new oidc.provider.ResourceServer('urn:floecat', resource('urn:floecat'));
  ctx.body = {
    access_token: await token.save(),
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    token_type: 'Bearer',
    expires_in: token.expiration,
  };
}, ['subject_token', 'subject_token_type', 'scope']);

provider.listen(port, '127.0.0.1', () => console.log('listening'));
