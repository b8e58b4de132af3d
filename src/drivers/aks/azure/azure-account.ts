/** An Azure account, and the options that all its clients share. */
import type { TokenCredential } from '@azure/identity';
import type { Clock } from '../../../base/clock.ts';

export interface AzureAccount {
  credential: TokenCredential;
  /** The resource manager of a cloud other than the public one. */
  endpoint: string | undefined;
  /** PEM: the authority for that address, if it is not a public one. */
  ca: string | undefined;
  clock: Clock;
}

/** Closes connections that hang; callers have timed out long before. */
const silent_ms = 20_000;

interface LimitedRequest {
  timeout: number;
}

const giveUpInTime = {
  name: 'slipwayGiveUpInTime',
  sendRequest<Request extends LimitedRequest, Response>(
    request: Request,
    next: (request: Request) => Promise<Response>,
  ): Promise<Response> {
    request.timeout = silent_ms;
    return next(request);
  },
};

/** Options for all SDKs: above all no retries of their own, because operations retry. */
export function clientOptions({ endpoint, ca }: AzureAccount) {
  const scopes = `${endpoint ?? 'https://management.azure.com'}/.default`;
  return {
    ...(endpoint && { endpoint }),
    credentials: { scopes: [scopes] },
    credentialScopes: scopes,
    retryOptions: { maxRetries: 0 },
    additionalPolicies: [{ policy: giveUpInTime, position: 'perCall' as const }],
    ...(ca && { tlsOptions: { ca } }),
  };
}

/**
 * Loads Azure's SDKs at first use, once, and strictly one after the other. Some are imported and
 * some required, and they share modules: Node refuses to require a module whose import is pending,
 * and caches that error for the life of the process.
 */
async function load() {
  const identity = await import('@azure/identity');
  const aks = await import('@azure/arm-containerservice');
  const { createContainerService } = await import('@azure/arm-containerservice/api');
  const { ResourceManagementClient } = await import('@azure/arm-resources');
  const { AuthorizationManagementClient } = await import('@azure/arm-authorization');
  return { ...identity, ...aks, createContainerService, ResourceManagementClient, AuthorizationManagementClient };
}

let loaded: ReturnType<typeof load> | undefined;

export function azureSdks(): ReturnType<typeof load> {
  loaded ??= load();
  return loaded;
}
