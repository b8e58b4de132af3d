/** Types of the arguments and results of a registration. */
import type { Clock } from '../../base/clock.ts';
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId, TokenId } from '../../base/ids.ts';
import type { Protocol } from '../../contract/compat/protocol.ts';
import type { ClientProcess } from '../../lifecycle/joins/duplicates.ts';
import type { Installation } from '../keys/installation.ts';
import type { WriteAccount } from '../pg/database.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';

export interface Registration {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  /** Unset if the agent keeps the credential it has. */
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
  /** When a credential that is issued now expires. Without a value, it never expires. */
  credential_expires_at?: Date | null;
  /** Set for clients of a foreign protocol. */
  arrival?: Arrival;
  /** The account that is charged for the rows that the registration writes. */
  account?: WriteAccount;
}

/** The registration of a client of a foreign protocol. */
export interface Arrival {
  protocol: Protocol;
  announced_interval_seconds: number | null;
  client_instance: string | null;
  /** The join token that the client sent; null if the client sent its own credential. */
  join_token_id: TokenId | null;
  /**
   * The holder of the name when the caller judged this registration to be a restart. The
   * registration fails if the holder has changed since.
   */
  judged?: JudgedName;
  /** The processes that had the name, this one included; unset if no process had it before. */
  client_processes?: ClientProcess[];
}

export interface JudgedName {
  node_instance_id: NodeInstanceId | null;
  endpoint: string | null;
  allocation_id: AllocationId | null;
}
