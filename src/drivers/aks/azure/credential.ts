/**
 * This server's Azure account, from the environment as Azure's own library reads it: a client
 * secret or certificate, a workload or managed identity, or the login of Azure's command line.
 * Never from a pool.
 */
import type { AccessToken, GetTokenOptions, TokenCredential } from '@azure/identity';
import { azureSdks } from './azure-account.ts';
import type { Redact } from './redact.ts';

export type Environment = Record<string, string | undefined>;

/** Values of these variables are secrets, wherever they appear. */
const secretVariables = ['AZURE_CLIENT_SECRET', 'AZURE_CLIENT_CERTIFICATE_PASSWORD', 'AZURE_PASSWORD'];

export const secretsIn = (environment: Environment): (string | undefined)[] =>
  secretVariables.map((name) => environment[name]);

/**
 * A private cloud's directory is unknown to the public one, so instance discovery must be off for
 * it.
 */
const publicDirectories = /^https:\/\/login\.(microsoftonline\.(com|us)|chinacloudapi\.cn)\/?$/;

async function accountOf(environment: Environment, ca: string | undefined): Promise<TokenCredential> {
  const { ClientSecretCredential, DefaultAzureCredential } = await azureSdks();
  const authorityHost = environment.AZURE_AUTHORITY_HOST;
  const options = {
    // Operations retry; a library that retries for a minute would only delay others.
    retryOptions: { maxRetries: 0 },
    ...(authorityHost && { authorityHost, disableInstanceDiscovery: !publicDirectories.test(authorityHost) }),
    ...(ca && { tlsOptions: { ca } }),
  };
  const { AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_TOKEN_CREDENTIALS } = environment;
  return AZURE_TENANT_ID && AZURE_CLIENT_ID && AZURE_CLIENT_SECRET && !AZURE_TOKEN_CREDENTIALS
    ? new ClientSecretCredential(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, options)
    : new DefaultAzureCredential(options);
}

/** The library is loaded when the first token is needed. */
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

/** Every token becomes a secret to redact. */
export const learningCredential = (credential: TokenCredential, redact: Redact): TokenCredential => ({
  async getToken(scopes, options) {
    const token = await credential.getToken(scopes, options);
    redact.learn(token?.token);
    return token;
  },
});
