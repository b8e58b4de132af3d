/** An Azure account, and the options that all its clients share. */
import type { TokenCredential } from '@azure/identity';
import type { Clock } from '../../../base/clock.ts';

export interface AzureAccount {
  credential: TokenCredential;
  /** The resource manager of another cloud than the public one. */
  endpoint: string | undefined;
  /** PEM: who vouches for that address, where it is nobody whom every machine trusts. */
  ca: string | undefined;
  clock: Clock;
}

/** Somebody who is silent for so long is not there; whoever called was answered long before. */
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

/** What all SDKs are told: above all no tries of their own, since we are asked again. */
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
