/** Resource groups and their contents. */
import type { ResourceGroup } from '@azure/arm-resources';
import type { Tags } from '../tags.ts';
import { type AzureAccount, azureSdks, clientOptions } from './azure-account.ts';
import { isMissing } from './azure-error.ts';

export interface Group {
  id: string;
  name: string;
  tags: Tags;
  /** Azure's own word. */
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
  /** Null if there is none. */
  get(name: string): Promise<Group | null>;
  create(name: string, wanted: { location: string; tags: Tags }): Promise<void>;
  /** Requests the deletion; its end shows when the group is gone. */
  remove(name: string): Promise<void>;
  contents(name: string): Promise<Resource[]>;
  tagged(name: string, value: string): Promise<Group[]>;
  ofType(type: string): Promise<Resource[]>;
}

const quoted = (value: string) => `'${value.replaceAll("'", "''")}'`;

const groupOf = ({ id = '', name = '', tags = {}, properties, managedBy }: ResourceGroup): Group => ({
  id,
  name,
  tags,
  state: properties?.provisioningState ?? 'Unknown',
  managed_by: managedBy ?? null,
});

async function resourcesIn(pages: AsyncIterable<{ id?: string; type?: string; tags?: Tags }>): Promise<Resource[]> {
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
    async create(name, wanted) {
      await resourceGroups.createOrUpdate(name, wanted);
    },
    async remove(name) {
      await resourceGroups.delete(name).submitted();
    },
    contents: (name) => resourcesIn(resources.listByResourceGroup(name)),
    async tagged(name, value) {
      const all: Group[] = [];
      const filter = `tagName eq ${quoted(name)} and tagValue eq ${quoted(value)}`;
      for await (const group of resourceGroups.list({ filter })) all.push(groupOf(group));
      // A list filtered by tag may omit the tags.
      const whole = all.map((group) => (name in group.tags ? group : get(group.name)));
      return (await Promise.all(whole)).filter((group) => group !== null);
    },
    ofType: (type) => resourcesIn(resources.list({ filter: `resourceType eq ${quoted(type)}` })),
  };
}
