/**
 * The labels by which an installation finds its containers. They are part of the create request,
 * so no container exists without them.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { DriverTarget } from '../driver.ts';

export const labelNames = {
  installation_id: 'io.slipway.installation_id',
  pool: 'io.slipway.pool',
  node_id: 'io.slipway.node_id',
  node_instance_id: 'io.slipway.node_instance_id',
} as const;

export type Labels = Record<string, string>;

export const labelsOf = ({ installation_id, pool, node_id, node_instance_id }: DriverTarget): Labels => ({
  [labelNames.installation_id]: installation_id,
  [labelNames.pool]: pool,
  [labelNames.node_id]: node_id,
  [labelNames.node_instance_id]: node_instance_id,
});

/** The labels that identify one instance of this installation. */
export const instanceLabels = ({ installation_id, node_instance_id }: DriverTarget): Labels => ({
  [labelNames.installation_id]: installation_id,
  [labelNames.node_instance_id]: node_instance_id,
});

export const hasLabels = (labels: Labels, expected: Labels): boolean =>
  Object.entries(expected).every(([name, value]) => labels[name] === value);

export const idsIn = (labels: Labels) => ({
  node_id: (labels[labelNames.node_id] ?? null) as NodeId | null,
  node_instance_id: (labels[labelNames.node_instance_id] ?? null) as NodeInstanceId | null,
});

/**
 * Names are unique per engine, so two concurrent creates make one container. Lookups use labels,
 * never the name.
 */
export const containerName = ({ node_instance_id }: DriverTarget): string => `slipway-${node_instance_id}`;
