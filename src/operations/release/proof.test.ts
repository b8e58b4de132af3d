/**
 * Tests that a request for a driver's proof times out, and that an agent's statement counts only
 * with a valid signature.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { fingerprintOf } from '../../base/credentials/ed25519.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { Driver, DriverTarget, ProveOutcome } from '../../drivers/driver.ts';
import type { OperationContext } from '../../engine/engine.ts';
import type { KeyStanding } from '../../store/agents/agent-keys/trusted-key.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { AgentAnswer } from '../runtime/agent-task.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { lookForProof, proveByAgent, proveByDriver } from './proof.ts';

const agent = vi.hoisted(() => ({
  answer: undefined as unknown,
  recorded: [] as { kind: string }[],
  last_seq: 7,
  standing: undefined as KeyStanding | undefined,
}));
vi.mock(import('../runtime/agent-task.ts'), async (original) => ({
  ...(await original()),
  askAgent: async () => agent.answer as AgentAnswer,
}));
vi.mock(import('../../store/evidence/evidence.ts'), async (original) => ({
  ...(await original()),
  recordEvidence: async (_, facts) => {
    agent.recorded.push(...facts);
  },
}));

vi.mock(import('../../store/agents/agent-keys/key-change.ts'), async (original) => ({
  ...(await original()),
  readKeyStanding: async () => agent.standing,
}));

vi.mock(import('../../store/logs/node-logs.ts'), async (original) => ({
  ...(await original()),
  readLastStoredSeq: async () => agent.last_seq,
}));

const target = { node_instance_id: 'inst_1' } as DriverTarget;
const askDriver = (prove: Driver['prove'], clock = virtualClock()) =>
  lookForProof(clock, { driver: simulatedDriver({ prove }), target });

test('accepts a proof with the nonce of the request', async () => {
  const result = await askDriver(async (_, { kind, nonce }) => ({
    outcome: 'done',
    proof: { kind, nonce, checked: [] },
  }));
  expect(result.proof).toMatchObject({ kind: 'absent' });
});

test('times out when the driver does not answer', async () => {
  const clock = virtualClock();
  const pending = askDriver(() => new Promise(() => {}), clock);
  await clock.advance(60_000);
  expect(await pending).toEqual({ proof: null, why_not: 'the driver simulated did not answer within 30 s' });
});

test.for<[string, Driver['prove'], string]>([
  [
    'a refusal',
    async () => ({
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'there',
      message: 'still there',
      retryable: true,
    }),
    'still there',
  ],
  ['a wait', async () => ({ outcome: 'wait', retry_seconds: 1, message: 'ask later' }), 'ask later'],
  [
    'an old proof',
    async (_, { kind }) => ({ outcome: 'done', proof: { kind, nonce: 'of yesterday', checked: [] } }),
    'the proof has another nonce',
  ],
  [
    'an error',
    async () => {
      throw new Error('the provider is unavailable');
    },
    'the driver simulated failed: the provider is unavailable',
  ],
])('%s is no proof, and its message becomes the reason', async ([, prove, why_not]) => {
  expect(await askDriver(prove)).toEqual({ proof: null, why_not });
});

test('throws when the store is unavailable', async () => {
  const unavailable = async () => {
    throw new StoreUnavailable('away');
  };
  await expect(askDriver(unavailable)).rejects.toThrow(StoreUnavailable);
});

describe('a statement by an agent', () => {
  const [agentKey, otherKey] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
  const agent_public_key = agentKey.publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const statement = { task_id: 'task_1', status: 'succeeded', result: { nonce: 'n1', checked: [] } } as const;
  const signatureOf = (content: object, key = agentKey.privateKey, node_instance_id = 'inst_1') =>
    sign(null, Buffer.from(canonicalJson({ ...content, node_instance_id })), key).toString('base64');
  const provenKey = { agent_public_key, key_unproven_since: null };
  const askAgentForProof = (answer: object, instance: object = provenKey, reuse = true) => {
    agent.recorded = [];
    agent.answer = { params: { nonce: 'n1' }, error: null, ...statement, signature: signatureOf(statement), ...answer };
    const context = { workflow_id: 'wf_1', step: (_: string, work: () => unknown) => work() };
    const subject = { node_instance_id: 'inst_1', node: { node_id: 'node_1' }, ids: {}, instance } as Subject;
    const services = { clock: virtualClock() } as unknown as OperationServices;
    const contact = { unreachable: false };
    return proveByAgent(context as unknown as OperationContext, services, 'clean', subject, contact, { reuse });
  };

  test('is a proof with a valid signature and the nonce of the request', async () => {
    expect(await askAgentForProof({})).toMatchObject({ proven: true, proof: { kind: 'clean', nonce: 'n1' } });
    expect(agent.recorded.map(({ kind }) => kind)).toEqual(['proof.clean']);
  });

  test('is a proof if all its log lines are stored', async () => {
    const complete = { ...statement, result: { ...statement.result, last_log_seq: agent.last_seq } };
    expect(await askAgentForProof({ ...complete, signature: signatureOf(complete) })).toMatchObject({ proven: true });
  });

  describe('while a new key is unproven', () => {
    const unprovenKey = otherKey.publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
    const signedByUnproven = { signature: signatureOf(statement, otherKey.privateKey) };
    beforeEach(() => {
      const key_unproven_since = new Date(0);
      agent.standing = { agent_public_key: unprovenKey, key_unproven_since, trusted_public_key: agent_public_key };
    });
    afterEach(() => {
      agent.standing = undefined;
    });

    test('signed by the unproven key, counts only for a machine that is not reused', async () => {
      const refused = askAgentForProof(signedByUnproven).catch((error: unknown) => error);
      expect(await refused).toMatchObject({
        code: 'proof_key_unproven',
        owner_layer: 'auth',
        message: expect.stringMatching(
          new RegExp(`to ${fingerprintOf(unprovenKey)} without .* accept-key --fingerprint FINGERPRINT --reason`),
        ),
      });
      expect(agent.recorded).toEqual([]);
      expect(await askAgentForProof(signedByUnproven, undefined, false)).toMatchObject({ proven: true });
    });

    test('signed by the last proven key, counts even if the operation began with the unproven key', async () => {
      expect(await askAgentForProof({})).toMatchObject({ proven: true });
      expect(await askAgentForProof({}, { agent_public_key: unprovenKey })).toMatchObject({ proven: true });
    });

    test('signed by a key that has been replaced since, does not count', async () => {
      agent.standing = { agent_public_key, key_unproven_since: null, trusted_public_key: agent_public_key };
      await expect(askAgentForProof(signedByUnproven, { agent_public_key: unprovenKey })).rejects.toMatchObject({
        code: 'proof_unsigned',
      });
    });
  });

  const incomplete = { ...statement, result: { ...statement.result, last_log_seq: agent.last_seq + 1 } };
  const withOldNonce = { ...statement, result: { nonce: 'n0', checked: [] } };
  test.for<[string, object, object | undefined, string]>([
    ['without a signature,', { signature: null }, undefined, 'proof_unsigned'],
    ['with an invalid signature,', { signature: 'AAAA' }, undefined, 'proof_unsigned'],
    ['signed by another key,', { signature: signatureOf(statement, otherKey.privateKey) }, undefined, 'proof_unsigned'],
    [
      'signed for another instance,',
      { signature: signatureOf(statement, agentKey.privateKey, 'inst_2') },
      undefined,
      'proof_unsigned',
    ],
    [
      'signed for another task,',
      { signature: signatureOf({ ...statement, task_id: 'task_0' }) },
      undefined,
      'proof_unsigned',
    ],
    ['changed after it was signed,', { result: { ...statement.result, more: 1 } }, undefined, 'proof_unsigned'],
    ['of an agent without a key,', {}, { agent_public_key: null }, 'proof_unsigned'],
    ['signed for an old nonce,', { ...withOldNonce, signature: signatureOf(withOldNonce) }, undefined, 'proof_stale'],
    ['with a missing log line,', { ...incomplete, signature: signatureOf(incomplete) }, undefined, 'log_lines_missing'],
  ])('%s proves nothing and is not recorded', async ([, answer, instance, code]) => {
    await expect(askAgentForProof(answer, instance)).rejects.toMatchObject({ code, owner_layer: 'node' });
    expect(agent.recorded).toEqual([]);
  });
});

test('shows the error of a driver that cannot prove yet, and clears it with the next answer', async () => {
  const wait = { outcome: 'wait', retry_seconds: 1, message: 'still there' } as const;
  const error = { code: 'engine_away', owner_layer: 'provider' } as const;
  const answers: ProveOutcome[] = [{ ...wait, error }, wait];
  const errors: unknown[] = [];
  const context = {
    workflow_id: 'op_1',
    step: async (_: string, work: () => Promise<unknown>) => work(),
    emit: async (progress: { error?: unknown }) => errors.push(progress.error),
    sleep: async () => {},
  } as unknown as OperationContext;
  const driver = simulatedDriver({
    prove: async (_, { kind, nonce }) => answers.shift() ?? { outcome: 'done', proof: { kind, nonce, checked: [] } },
  });
  const services = { clock: virtualClock() } as unknown as OperationServices;
  const policy = { tries: 1, base_seconds: 1, max_seconds: 1 };
  await proveByDriver(context, services, 'prove', { driver, target, ids: {} }, 'absent', policy);
  expect(errors).toEqual([{ ...error, message: 'still there' }, null]);
});
