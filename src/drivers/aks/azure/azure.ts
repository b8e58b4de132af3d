/** What the driver asks of one Azure subscription, in its own few words. The SDKs are loaded when the first one is asked. */
import type { AzureAccount } from './azure-account.ts';
import { type AzureClusters, openClusters } from './azure-clusters.ts';
import { type AzureGroups, openGroups } from './azure-groups.ts';
import { type AzureRoles, openRoles } from './azure-roles.ts';

export interface Azure {
  subscription_id: string;
  groups: AzureGroups;
  clusters: AzureClusters;
  roles: AzureRoles;
}

export async function openAzure(subscription_id: string, account: AzureAccount): Promise<Azure> {
  const [groups, clusters, roles] = await Promise.all([
    openGroups(subscription_id, account),
    openClusters(subscription_id, account),
    openRoles(subscription_id, account),
  ]);
  return { subscription_id, groups, clusters, roles };
}
