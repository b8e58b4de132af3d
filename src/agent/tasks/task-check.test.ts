import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { moment, systemClock } from '../../base/clock.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import { node, signedTask } from '../testing/protocol-server.ts';
import { refusalOf, type TaskCheck } from './task-check.ts';

const server = generateKeyPairSync('ed25519');
const spki = (key: typeof server.publicKey) => key.export({ type: 'spki', format: 'der' }).toString('base64');
const keys = [{ kid: 'key-1', public_key: spki(server.publicKey) }];
const check: TaskCheck = { keys, ...node, now_ms: systemClock.nowMs(), supportsType: (type) => type === 'ping' };
const task = (change: Partial<SignedTask> = {}): SignedTask => ({
  ...signedTask(server.privateKey, 'task_1', 'ping', { b: [1, { z: 'ü', a: null }] }),
  ...change,
});

test('accepts a task signed by the control plane for this instance', () => {
  expect(refusalOf(task(), check)).toBeNull();
});

test('refuses a task with any changed field', () => {
  const changes: Partial<SignedTask>[] = [
    { params: {} },
    { type: 'release.stop' },
    { task_id: 'task_2' },
    { expires_at: '2999-01-01T00:00:00Z' },
    { node_instance_id: 'inst_2' },
    { correlation_id: 'another' },
    { signature: '' },
    { signature: 'AAAA' },
  ];
  for (const change of changes) expect(refusalOf(task(change), check)?.code).toBe('task_signature_invalid');
});

test('refuses a task whose key is retired', () => {
  const keysUntil = (ms: number) => [
    { kid: 'key-1', public_key: spki(server.publicKey), accepted_until: moment(ms).toISOString() },
  ];
  expect(refusalOf(task(), { ...check, keys: keysUntil(check.now_ms + 1000) })).toBeNull();
  expect(refusalOf(task(), { ...check, keys: keysUntil(check.now_ms) })?.code).toBe('task_signature_invalid');
});

test('refuses a task with an added field', () => {
  expect(refusalOf({ ...task(), ...{ new_field: 1 } }, check)?.code).toBe('task_signature_invalid');
});

test('refuses a signature by a foreign key, and keys with another id or of another type', () => {
  const foreignKey = generateKeyPairSync('ed25519');
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const foreignTask = signedTask(foreignKey.privateKey, 'task_1', 'ping', {});
  expect(refusalOf(foreignTask, check)?.code).toBe('task_signature_invalid');
  for (const otherKeys of [
    [{ kid: 'key-2', public_key: spki(server.publicKey) }],
    [{ kid: 'key-1', public_key: spki(rsa.publicKey) }],
    [{ kid: 'key-1', public_key: 'no key' }],
    [],
  ]) {
    expect(refusalOf(task(), { ...check, keys: otherKeys })?.code).toBe('task_signature_invalid');
  }
});

test('refuses a task for another node or instance', () => {
  expect(refusalOf(task(), { ...check, node_instance_id: 'inst_2' })?.code).toBe('task_wrong_node');
  expect(refusalOf(task(), { ...check, node_id: 'node_2' })?.code).toBe('task_wrong_node');
});

test('refuses an expired task', () => {
  const validTask = task();
  const expires_ms = Date.parse(validTask.expires_at);
  expect(refusalOf(validTask, { ...check, now_ms: expires_ms + 1 })?.code).toBe('task_expired');
  expect(refusalOf(validTask, { ...check, now_ms: expires_ms - 1000 })).toBeNull();
});

test('refuses a task of an unknown type', () => {
  expect(refusalOf(task(), { ...check, supportsType: () => false })?.code).toBe('task_type_unknown');
});
