/**
 * Who this server is in Azure, from its environment as Azure's own library reads it: a client secret or certificate, a workload or
 * managed identity, or whoever is logged in with Azure's command line. Never from a pool.
 */
import type { AccessToken, GetTokenOptions, TokenCredential } from '@azure/identity';
import type { Strike } from './redact.ts';
import { azureSdks } from './sdks.ts';

export type Environment = Record<string, string | undefined>;

/** Values of these are secrets, wherever they turn up. */
const secretVariables = ['AZURE_CLIENT_SECRET', 'AZURE_CLIENT_CERTIFICATE_PASSWORD', 'AZURE_PASSWORD'];

export const secretsIn = (environment: Environment): (string | undefined)[] =>
  secretVariables.map((name) => environment[name]);

/** Other directories (a private cloud's) are not known to the public one, which would be asked about them first. */
const publicDirectories = /^https:\/\/login\.(microsoftonline\.(com|us)|chinacloudapi\.cn)\/?$/;

async function accountOf(environment: Environment, ca: string | undefined): Promise<TokenCredential> {
  const { ClientSecretCredential, DefaultAzureCredential } = await azureSdks();
  const authorityHost = environment.AZURE_AUTHORITY_HOST;
  const options = {
    // We are asked again; a library that tries for a minute would only keep others waiting.
    retryOptions: { maxRetries: 0 },
    ...(authorityHost && { authorityHost, disableInstanceDiscovery: !publicDirectories.test(authorityHost) }),
    ...(ca && { tlsOptions: { ca } }),
  };
  const { AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_TOKEN_CREDENTIALS } = environment;
  return AZURE_TENANT_ID && AZURE_CLIENT_ID && AZURE_CLIENT_SECRET && !AZURE_TOKEN_CREDENTIALS
    ? new ClientSecretCredential(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, options)
    : new DefaultAzureCredential(options);
}

/** The library is loaded when the first token is wanted. */
export function createCredential(environment: Environment, ca: string | undefined): TokenCredential {
  let account: Promise<TokenCredential> | undefined;
  return {
    async getToken(scopes: string | string[], options?: GetTokenOptions): Promise<AccessToken | null> {
      account ??= accountOf(environment, ca);
      account.catch(() => {
        account = undefined;
      });
      return (await account).getToken(scopes, options);
    },
  };
}

/** Every token that was had is a secret from then on. */
export const keptSecret = (credential: TokenCredential, strike: Strike): TokenCredential => ({
  async getToken(scopes, options) {
    const token = await credential.getToken(scopes, options);
    strike.learn(token?.token);
    return token;
  },
});
