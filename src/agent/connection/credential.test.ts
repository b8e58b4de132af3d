/**
 * Tests which calls are sent while the server does not know the credential, and when all are sent
 * again.
 */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { credentialDoubt } from './credential.ts';

const unknown = {
  ...{ owner_layer: 'agent', layer: 'credential' },
  ...{ call: 'agent-heartbeat', status: 401, code: 'credential_unknown', detail: '' },
  ...{ retry_after_seconds: null, deadline_at: null },
} as const;
const retry = { first_ms: 10_000, max_ms: 300_000 };

function createDoubt() {
  const clock = virtualClock();
  const doubt = credentialDoubt(clock, 20_000, retry, async () => {});
  const resolved: string[] = [];
  const call = async (name: string, signal = new AbortController().signal) => {
    await doubt.waitForTurn(signal);
    resolved.push(name);
  };
  return { clock, doubt, resolved, call };
}

test('while the credential is lost, one call is sent after each growing pause', async () => {
  const { clock, doubt, resolved, call } = createDoubt();
  expect(doubt.confirmLoss(unknown)).toBe(false);
  await call('in doubt');
  await clock.advance(20_000);
  expect(doubt.confirmLoss(unknown)).toBe(true);
  const calls = ['a', 'b', 'c'].map((name) => call(name));
  await clock.advance(1_000);
  expect(resolved).toEqual(['in doubt']);
  await clock.advance(9_000);
  expect(resolved).toHaveLength(2);
  await clock.advance(20_000);
  expect(resolved).toHaveLength(3);
  await clock.advance(40_000);
  await Promise.all(calls);
});

test('all waiting calls go on at once when the credential is known again', async () => {
  const { clock, doubt, resolved, call } = createDoubt();
  doubt.markLost();
  const calls = ['a', 'b', 'c'].map((name) => call(name));
  await clock.advance(10_000);
  expect(resolved).toHaveLength(1);
  expect(doubt.clear()).toBe(true);
  await Promise.all(calls);
  await call('d');
  expect(resolved.toSorted()).toEqual(['a', 'b', 'c', 'd']);
  expect(doubt.clear()).toBe(false);
});

test('a call that is aborted does not wait', async () => {
  const { doubt, resolved, call } = createDoubt();
  doubt.markLost();
  const abort = new AbortController();
  const calls = call('a', abort.signal);
  abort.abort();
  await calls;
  expect(resolved).toEqual(['a']);
});
