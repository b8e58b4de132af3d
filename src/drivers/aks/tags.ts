/**
 * The tags that identify our resources. Create requests contain them, so a crash cannot leave a
 * resource without tags.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { DriverTarget } from '../driver.ts';

export const tagPrefix = 'io.slipway.';

export const tagNames = {
  installation_id: `${tagPrefix}installation_id`,
  pool: `${tagPrefix}pool`,
  node_id: `${tagPrefix}node_id`,
  node_instance_id: `${tagPrefix}node_instance_id`,
} as const;

export type Tags = Record<string, string>;

export const tagsOf = ({ installation_id, pool, node_id, node_instance_id }: DriverTarget): Tags => ({
  [tagNames.installation_id]: installation_id,
  [tagNames.pool]: pool,
  [tagNames.node_id]: node_id,
  [tagNames.node_instance_id]: node_instance_id,
});

/** Azure preserves the case of tag names but compares them case-insensitively. */
const tagIn = (tags: Tags, tagName: string): string | undefined =>
  Object.entries(tags).find(([name]) => name.toLowerCase() === tagName)?.[1];

/** Whether the tags name this instance and this installation. */
export const areInstanceTags = (tags: Tags, { installation_id, node_instance_id }: DriverTarget): boolean =>
  tagIn(tags, tagNames.installation_id) === installation_id &&
  tagIn(tags, tagNames.node_instance_id) === node_instance_id;

export const areInstallationTags = (tags: Tags, installation_id: string): boolean =>
  tagIn(tags, tagNames.installation_id) === installation_id;

export const idsIn = (tags: Tags) => ({
  node_id: (tagIn(tags, tagNames.node_id) ?? null) as NodeId | null,
  node_instance_id: (tagIn(tags, tagNames.node_instance_id) ?? null) as NodeInstanceId | null,
});
