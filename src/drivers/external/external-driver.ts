/**
 * Machines that others provide and remove. We enrol, supervise, drain and quarantine them. The
 * driver cannot reach them, so it can only prove that an instance's credential is revoked.
 */
import { Type } from 'typebox';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Driver, DriverDone, ProveOutcome } from '../driver.ts';

export interface ExternalDriverOptions {
  /** Whether every credential of this instance is revoked. */
  revoked(node_instance_id: NodeInstanceId): Promise<boolean>;
}

const done = (message: string) => async (): Promise<DriverDone> => ({ outcome: 'done', message });

export function createExternalDriver({ revoked }: ExternalDriverOptions): Driver {
  return {
    name: 'external',
    supervision: 'agent',
    launches: false,
    host_bound: false,
    final_proof: 'revoked',
    spec_schema: Type.Object({}, { additionalProperties: false }),
    plan: () => [{ phase: 'enrol', label: 'Wait for the machine to enrol', usual_seconds: null, owner_layer: 'node' }],
    ensure: done('the machine is brought by others; waiting for it to enrol'),
    // There is no upstream to ask: only the heartbeat shows whether it is alive.
    observe: async () => ({
      state: 'unknown',
      present: true,
      ready: false,
      detail: 'only the machine itself can tell',
      unseen: true,
    }),
    stop: done('the machine ends its own workload'),
    clean: done('nothing on the machine is ours to remove'),
    destroy: done('the machine is not ours to end'),
    abort: done('nothing was started for this machine'),
    async prove({ node_instance_id }, { kind, nonce }): Promise<ProveOutcome> {
      if (kind !== 'revoked') {
        return {
          outcome: 'failed',
          owner_layer: 'control_plane',
          code: 'proof_not_offered',
          message: `an external machine cannot be proven "${kind}": nobody here can look at it`,
          retryable: false,
        };
      }
      if (!(await revoked(node_instance_id))) {
        return {
          outcome: 'failed',
          owner_layer: 'control_plane',
          code: 'not_revoked',
          message: `a credential of ${node_instance_id} is still valid`,
          retryable: true,
        };
      }
      const checked = [{ what: `credentials of ${node_instance_id} in the store`, seen: 'none is valid' }];
      return { outcome: 'done', proof: { kind, nonce, checked } };
    },
    diagnose: async () => ({
      summary: 'an external machine: what it knows comes with its heartbeats and logs',
      certain: false,
      attachments: [],
    }),
    list_owned: async () => [],
  };
}
