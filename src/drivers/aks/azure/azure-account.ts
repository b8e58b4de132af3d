/** Defines an Azure account, and the client options that all Azure SDKs share. */
import type { TokenCredential } from '@azure/identity';
import type { Clock } from '../../../base/clock.ts';

export interface AzureAccount {
  credential: TokenCredential;
  /** The URL of the resource manager, for a cloud other than the public one. */
  endpoint: string | undefined;
  /** The certificate authority (PEM) for that URL, if it is not a public one. */
  ca: string | undefined;
  clock: Clock;
}

/** Closes hung connections. The callers have timed out long before. */
const request_timeout_ms = 20_000;

interface RequestWithTimeout {
  timeout: number;
}

const timeoutPolicy = {
  name: 'slipwayTimeout',
  sendRequest<Request extends RequestWithTimeout, Response>(
    request: Request,
    next: (request: Request) => Promise<Response>,
  ): Promise<Response> {
    request.timeout = request_timeout_ms;
    return next(request);
  },
};

/** Returns the options for all SDKs. Retries are off because operations retry. */
export function clientOptions({ endpoint, ca }: AzureAccount) {
  const scopes = `${endpoint ?? 'https://management.azure.com'}/.default`;
  return {
    ...(endpoint && { endpoint }),
    credentials: { scopes: [scopes] },
    credentialScopes: scopes,
    retryOptions: { maxRetries: 0 },
    additionalPolicies: [{ policy: timeoutPolicy, position: 'perCall' as const }],
    ...(ca && { tlsOptions: { ca } }),
  };
}

/**
 * Loads Azure's SDKs one after the other. Some SDKs import and others require the same modules.
 * Node refuses to require a module while its import is pending, and caches that error for the life
 * of the process.
 */
async function load() {
  const identity = await import('@azure/identity');
  const aks = await import('@azure/arm-containerservice');
  const { createContainerService } = await import('@azure/arm-containerservice/api');
  const { ResourceManagementClient } = await import('@azure/arm-resources');
  const { AuthorizationManagementClient } = await import('@azure/arm-authorization');
  return { ...identity, ...aks, createContainerService, ResourceManagementClient, AuthorizationManagementClient };
}

let sdks: ReturnType<typeof load> | undefined;

/** Loads the SDKs at first use. */
export function azureSdks(): ReturnType<typeof load> {
  sdks ??= load();
  return sdks;
}
