/** The driver's interface to one Azure subscription. The SDKs are loaded at first use. */
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
