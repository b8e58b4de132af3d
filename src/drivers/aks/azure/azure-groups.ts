/** Reads, creates and deletes resource groups, and lists resources. */
import type { ResourceGroup } from '@azure/arm-resources';
import type { Tags } from '../tags.ts';
import { type AzureAccount, azureSdks, clientOptions } from './azure-account.ts';
import { isMissing } from './azure-error.ts';

export interface Group {
  id: string;
  name: string;
  tags: Tags;
  /** The provisioning state as Azure spells it. */
  state: string;
  /** The id of the resource that Azure manages this group for, if any. */
  managed_by: string | null;
}

export interface Resource {
  id: string;
  type: string;
  tags: Tags;
}

export interface AzureGroups {
  /** Returns null if the group does not exist. */
  get(name: string): Promise<Group | null>;
  create(name: string, request: { location: string; tags: Tags }): Promise<void>;
  /** Requests the deletion. The deletion has ended when `get` returns null. */
  remove(name: string): Promise<void>;
  listContents(name: string): Promise<Resource[]>;
  listByTag(name: string, value: string): Promise<Group[]>;
  listByType(type: string): Promise<Resource[]>;
}

const quote = (value: string) => `'${value.replaceAll("'", "''")}'`;

const groupOf = ({ id = '', name = '', tags = {}, properties, managedBy }: ResourceGroup): Group => ({
  id,
  name,
  tags,
  state: properties?.provisioningState ?? 'Unknown',
  managed_by: managedBy ?? null,
});

async function collectResources(
  pages: AsyncIterable<{ id?: string; type?: string; tags?: Tags }>,
): Promise<Resource[]> {
  const all: Resource[] = [];
  for await (const { id = '', type = '', tags = {} } of pages) all.push({ id, type, tags });
  return all;
}

export async function openGroups(subscription_id: string, account: AzureAccount): Promise<AzureGroups> {
  const { ResourceManagementClient } = await azureSdks();
  const { resourceGroups, resources } = new ResourceManagementClient(
    account.credential,
    subscription_id,
    clientOptions(account),
  );
  const get = async (name: string): Promise<Group | null> => {
    try {
      return groupOf(await resourceGroups.get(name));
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  };
  return {
    get,
    async create(name, request) {
      await resourceGroups.createOrUpdate(name, request);
    },
    async remove(name) {
      await resourceGroups.delete(name).submitted();
    },
    listContents: (name) => collectResources(resources.listByResourceGroup(name)),
    async listByTag(name, value) {
      const all: Group[] = [];
      const filter = `tagName eq ${quote(name)} and tagValue eq ${quote(value)}`;
      for await (const group of resourceGroups.list({ filter })) all.push(groupOf(group));
      // Azure may leave out the tags in a list that is filtered by tag. Then read the group itself.
      const groups = all.map((group) => (name in group.tags ? group : get(group.name)));
      return (await Promise.all(groups)).filter((group) => group !== null);
    },
    listByType: (type) => collectResources(resources.list({ filter: `resourceType eq ${quote(type)}` })),
  };
}
