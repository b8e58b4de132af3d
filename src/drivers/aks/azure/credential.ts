/**
 * Reads this server's Azure account from the environment, as Azure's own library does: a client
 * secret or certificate, a workload or managed identity, or the login of the Azure CLI. A pool
 * cannot choose the account.
 */
import type { AccessToken, GetTokenOptions, TokenCredential } from '@azure/identity';
import { azureSdks } from './azure-account.ts';
import type { Redact } from './redact.ts';

export type Environment = Record<string, string | undefined>;

/** The values of these variables are redacted from every text. */
const secretVariables = ['AZURE_CLIENT_SECRET', 'AZURE_CLIENT_CERTIFICATE_PASSWORD', 'AZURE_PASSWORD'];

export const secretsIn = (environment: Environment): (string | undefined)[] =>
  secretVariables.map((name) => environment[name]);

/**
 * The sign-in directories of public clouds. For any other directory, instance discovery must be
 * off: it asks the public directory, which does not list the directory of a private cloud.
 */
const publicDirectories = /^https:\/\/login\.(microsoftonline\.(com|us)|chinacloudapi\.cn)\/?$/;

async function openCredential(environment: Environment, ca: string | undefined): Promise<TokenCredential> {
  const { ClientSecretCredential, DefaultAzureCredential } = await azureSdks();
  const authorityHost = environment.AZURE_AUTHORITY_HOST;
  const options = {
    // Operations retry. Retries by the library would delay an operation for up to a minute.
    retryOptions: { maxRetries: 0 },
    ...(authorityHost && { authorityHost, disableInstanceDiscovery: !publicDirectories.test(authorityHost) }),
    ...(ca && { tlsOptions: { ca } }),
  };
  const { AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_TOKEN_CREDENTIALS } = environment;
  return AZURE_TENANT_ID && AZURE_CLIENT_ID && AZURE_CLIENT_SECRET && !AZURE_TOKEN_CREDENTIALS
    ? new ClientSecretCredential(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, options)
    : new DefaultAzureCredential(options);
}

/** Loads the library when the first token is needed. */
export function createCredential(environment: Environment, ca: string | undefined): TokenCredential {
  let credential: Promise<TokenCredential> | undefined;
  return {
    async getToken(scopes: string | string[], options?: GetTokenOptions): Promise<AccessToken | null> {
      credential ??= openCredential(environment, ca);
      credential.catch(() => {
        credential = undefined;
      });
      return (await credential).getToken(scopes, options);
    },
  };
}

/** Wraps a credential so that every token it returns is redacted from later texts. */
export const redactTokensOf = (credential: TokenCredential, redact: Redact): TokenCredential => ({
  async getToken(scopes, options) {
    const token = await credential.getToken(scopes, options);
    redact.learn(token?.token);
    return token;
  },
});
