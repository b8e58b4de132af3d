/** What all ways to register share: who asks and when, what a start makes of a node, and what is answered. */
import { type Clock, secondsBetween } from '../../base/clock.ts';
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId, TokenId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent/agent.ts';
import type { Protocol } from '../../contract/compat/protocol.ts';
import { heartbeatPolicy } from '../../lifecycle/deadlines/budgets.ts';
import type { ClientProcess } from '../../lifecycle/joins/duplicates.ts';
import type { Installation } from '../keys/installation.ts';
import type { WriteAccount } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import type { KnownDocument } from '../rows/pools.ts';
import type { NodeMove } from '../transitions/node-move.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';

export interface Registration {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  credential?: string;
  credential_expires_at: Date | null;
  deadline_at: Date | null;
  heartbeat_interval_seconds: number;
  requires: { name: string; check: string }[];
  first: boolean;
}

export interface RegistrationContext {
  clock: Clock;
  now: Date;
  environment: TransitionEnvironment;
  installation: Installation;
  correlation_id: CorrelationId;
  /** Of a credential that is issued now; without one it does not age. */
  credential_expires_at?: Date | null;
  /** Set for clients of a foreign protocol. */
  arrival?: Arrival;
  /** Pays for what it writes. */
  account?: WriteAccount;
}

export interface Arrival {
  protocol: Protocol;
  announced_interval_seconds: number | null;
  client_instance: string | null;
  /** The join token that it showed; null where it showed its own credential. */
  join_token_id: TokenId | null;
  /** How its name stood when its return was judged to be a restart. The registration checks that it still does. */
  judged?: JudgedName;
  /** The processes that had the name, this one included; unset where none had it before. */
  client_processes?: ClientProcess[];
}

export interface JudgedName {
  node_instance_id: NodeInstanceId | null;
  endpoint: string | null;
  allocation_id: AllocationId | null;
}

/** The machine is here, in time or after it was given up: its start-up begins. */
export function startOf(
  node: NodeRow,
  instance: { node_instance_id: NodeInstanceId; created_at: Date },
  request: RegisterRequest,
  { now, correlation_id }: Pick<RegistrationContext, 'now' | 'correlation_id'>,
  isLate: boolean,
): NodeMove {
  const lateness = secondsBetween(node.status_since, now);
  return {
    node_id: node.node_id,
    node_instance_id: instance.node_instance_id,
    to: 'starting',
    by: isLate ? 'late-registration' : 'registration',
    reason: isLate ? `registered ${lateness.toFixed(1)} s after it failed` : `registered with agent ${request.version}`,
    set: {
      registered_at: node.registered_at ?? now,
      reported_status: 'starting',
      ...(request.base_url && { endpoint: request.base_url }),
      // An agent that registers looks again; what it then still misses fails the node again, by name.
      ...(node.prerequisites === 'missing' && { prerequisites: 'unchecked' as const }),
    },
    data: {
      version: request.version,
      boot_seconds: secondsBetween(node.clock_from ?? instance.created_at, now),
      ...(isLate && { lateness_seconds: lateness }),
    },
    correlation_id: node.correlation_id ?? correlation_id,
  };
}

export const replyOf = (
  node: NodeRow,
  pool: KnownDocument | undefined,
  node_instance_id: NodeInstanceId,
  credential: string | undefined,
  credential_expires_at: Date | null,
): Registration => ({
  node_id: node.node_id,
  node_instance_id,
  ...(credential && { credential }),
  credential_expires_at,
  deadline_at: node.deadline_at,
  heartbeat_interval_seconds: heartbeatPolicy(pool?.heartbeat).interval_seconds,
  requires: pool?.requires ?? [],
  first: credential !== undefined,
});
