/** What the driver asks of one Azure subscription, in its own few words. The SDKs are loaded when the first one is asked. */
import type { TokenCredential } from '@azure/identity';
import type { Clock } from '../../base/clock.ts';
import { type AzureClusters, openClusters } from './azure-clusters.ts';
import { type AzureGroups, openGroups } from './azure-groups.ts';
import { type AzureRoles, openRoles } from './azure-roles.ts';

export interface Azure {
  subscription_id: string;
  groups: AzureGroups;
  clusters: AzureClusters;
  roles: AzureRoles;
}

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

export async function openAzure(subscription_id: string, account: AzureAccount): Promise<Azure> {
  const [groups, clusters, roles] = await Promise.all([
    openGroups(subscription_id, account),
    openClusters(subscription_id, account),
    openRoles(subscription_id, account),
  ]);
  return { subscription_id, groups, clusters, roles };
}
