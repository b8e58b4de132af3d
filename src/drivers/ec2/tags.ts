/**
 * The tags by which an installation finds its resources. They are part of the launch request, so no
 * resource exists without them.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { DriverTarget } from '../driver.ts';

export const tagNames = {
  installation_id: 'io.slipway.installation_id',
  pool: 'io.slipway.pool',
  node_id: 'io.slipway.node_id',
  node_instance_id: 'io.slipway.node_instance_id',
} as const;

export type Tags = Record<string, string>;

export const tagsOf = ({ installation_id, pool, node_id, node_instance_id, name }: DriverTarget): Tags => ({
  Name: name,
  [tagNames.installation_id]: installation_id,
  [tagNames.pool]: pool,
  [tagNames.node_id]: node_id,
  [tagNames.node_instance_id]: node_instance_id,
});

/** The tags that identify one instance of this installation. */
export const instanceTags = ({ installation_id, node_instance_id }: DriverTarget): Tags => ({
  [tagNames.installation_id]: installation_id,
  [tagNames.node_instance_id]: node_instance_id,
});

export const hasTags = (tags: Tags, expected: Tags): boolean =>
  Object.entries(expected).every(([name, value]) => tags[name] === value);

export const idsIn = (tags: Tags) => ({
  node_id: (tags[tagNames.node_id] ?? null) as NodeId | null,
  node_instance_id: (tags[tagNames.node_instance_id] ?? null) as NodeInstanceId | null,
});
