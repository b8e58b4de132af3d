/**
 * The driver of machines that users provide and remove. The control plane enrols, supervises,
 * drains and quarantines them. The driver cannot reach such a machine, so it can only prove that
 * the instance's credentials are revoked.
 */
import { Type } from 'typebox';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Driver, DriverDone, ProveOutcome } from '../driver.ts';

export interface ExternalDriverOptions {
  /** Whether every credential of this instance is revoked. */
  isRevoked(node_instance_id: NodeInstanceId): Promise<boolean>;
}

const answerDone = (message: string) => async (): Promise<DriverDone> => ({ outcome: 'done', message });

export function createExternalDriver({ isRevoked }: ExternalDriverOptions): Driver {
  return {
    name: 'external',
    supervision: 'agent',
    launches: false,
    host_bound: false,
    final_proof: 'revoked',
    spec_schema: Type.Object({}, { additionalProperties: false }),
    plan: () => [
      { phase: 'enrol', label: 'Waiting for the machine to enrol', usual_seconds: null, owner_layer: 'node' },
    ],
    ensure: answerDone('waiting for the machine to enrol; Slipway does not start external machines'),
    // There is no upstream to ask. Only heartbeats show whether the machine is alive.
    inspect: async () => ({
      state: 'unknown',
      present: true,
      ready: false,
      detail: 'only heartbeats show the state of an external machine',
      unseen: true,
    }),
    stop: answerDone('the machine ends its own workload'),
    clean: answerDone('Slipway removes nothing from an external machine'),
    destroy: answerDone('Slipway does not end an external machine'),
    abort: answerDone('nothing was started for this machine'),
    async prove({ node_instance_id }, { kind, nonce }): Promise<ProveOutcome> {
      if (kind !== 'revoked') {
        return {
          outcome: 'failed',
          owner_layer: 'control_plane',
          code: 'proof_not_offered',
          message: `an external machine cannot be proven "${kind}": Slipway cannot inspect it`,
          retryable: false,
        };
      }
      if (!(await isRevoked(node_instance_id))) {
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
      summary: 'Slipway cannot inspect an external machine; read its heartbeats and logs',
      certain: false,
      attachments: [],
    }),
    list_owned: async () => [],
  };
}
