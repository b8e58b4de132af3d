/**
 * The environment of the agent's children: the agent's own, the pool's, and the ids; never our
 * secrets.
 */
import type { AgentConfig } from '../state/config.ts';
import { instanceTag } from './process-table.ts';

const neverInherited = ['SLIPWAY_JOIN_TOKEN', 'SLIPWAY_ENROLLMENT_TOKEN', 'SLIPWAY_ADMIN_TOKEN', 'SLIPWAY_TOKEN'];

export interface KnownIds {
  node_id: string | null;
  node_instance_id: string | null;
}

export function childEnvironment(config: AgentConfig, ids: KnownIds, own: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const inherited = Object.entries(own).filter(([name]) => !neverInherited.includes(name));
  const known = {
    [instanceTag]: ids.node_instance_id,
    SLIPWAY_NODE_ID: ids.node_id,
    SLIPWAY_NODE_NAME: config.name,
    SLIPWAY_CORRELATION_ID: config.correlation_id,
    SLIPWAY_WORKFLOW_ID: config.workflow_id,
  };
  const idEntries = Object.entries(known).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]));
  return { ...Object.fromEntries(inherited), ...config.env, ...Object.fromEntries(idEntries) };
}
