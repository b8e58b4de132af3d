/**
 * Tests that one pull serves all machines that wait for its image, and that no message contains
 * credentials.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { newNodeInstanceId } from '../../base/ids.ts';
import type { Engine } from './engine.ts';
import { createPulls } from './pull.ts';
import { readRegistryAuth, registryOf, secretsOf } from './registry-auth.ts';

const engine = (pull: Engine['pull']) => ({ address: 'unix:///engine.sock', pull }) as Engine;
const newWaiter = () => newNodeInstanceId(systemClock);

it('pulls once for all waiting machines, and again for a machine that asks after the pull has finished', async () => {
  let pulls = 0;
  let finish = () => {};
  const slow = engine(() => {
    pulls++;
    return new Promise((resolve) => {
      finish = resolve;
    });
  });
  const { poll } = createPulls(null);
  const [one, two] = [newWaiter(), newWaiter()];
  expect(await poll(slow, 'worker', one)).toMatchObject({ outcome: 'wait' });
  expect(await poll(slow, 'worker', two)).toMatchObject({ outcome: 'wait' });
  finish();
  await until('the pull to finish', async () => ((await poll(slow, 'worker', one)) === null ? true : undefined));
  expect(
    await poll(slow, 'worker', newWaiter()),
    'a machine that asks after the pull has finished starts a new pull',
  ).toMatchObject({
    outcome: 'wait',
  });
  expect(pulls).toBe(2);
});

it('cancels a pull only when its last machine stops waiting', async () => {
  const signals: AbortSignal[] = [];
  const endless = engine((_image, _auth, _onEvent, signal) => {
    signals.push(signal);
    return new Promise(() => {});
  });
  const { poll, stopWaiting } = createPulls(null);
  const [one, two] = [newWaiter(), newWaiter()];
  for (const each of [one, two]) await poll(endless, 'worker', each);
  await until('the pull to begin', () => (signals.length === 1 ? true : undefined));
  stopWaiting(one);
  expect(signals[0]?.aborted).toBe(false);
  stopWaiting(two);
  expect(signals[0]?.aborted).toBe(true);
});

const password = 'correct-horse-battery';
const auth = Buffer.from(`slipway:${password}`).toString('base64');

it('keeps registry credentials out of messages if the engine repeats them or the login file is invalid', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-login-'));
  const file = join(directory, 'config.json');
  writeFileSync(file, JSON.stringify({ auths: { 'registry.example.com': { auth } } }));
  const credentials = await readRegistryAuth(file, 'registry.example.com/team/worker:1');
  expect(credentials).toEqual({ serveraddress: 'registry.example.com', username: 'slipway', password });
  const secrets = secretsOf(credentials);
  expect(secrets).toEqual(expect.arrayContaining([password, auth]));
  const leakyEngine = engine(async () => {
    throw new Error(`unauthorized: ${secrets.join(' or ')} will not do`);
  });
  const { poll } = createPulls(file);
  const waiter = newWaiter();
  const answer = await until('a failed pull', async () => {
    const outcome = await poll(leakyEngine, 'registry.example.com/team/worker:1', waiter);
    return outcome?.outcome === 'failed' ? outcome : undefined;
  });
  expect(answer).toMatchObject({ code: 'image_denied', owner_layer: 'provider' });
  for (const secret of secrets) expect(answer.message).not.toContain(secret);

  writeFileSync(file, `{"auths": ${auth}`);
  const unreadable = await until('a failed pull', async () => {
    const outcome = await poll(leakyEngine, 'worker', waiter);
    return outcome?.outcome === 'failed' ? outcome : undefined;
  });
  expect(unreadable).toMatchObject({ code: 'registry_auth_unreadable', owner_layer: 'control_plane' });
  expect(unreadable.message).not.toContain(auth);
  rmSync(directory, { recursive: true });
});

it.each([
  ['worker', 'docker.io'],
  ['team/worker:1', 'docker.io'],
  ['localhost/worker', 'localhost'],
  ['registry:5000/worker', 'registry:5000'],
  ['registry.example.com/a/b@sha256:0', 'registry.example.com'],
])('finds image %s at registry %s', (image, registry) => {
  expect(registryOf(image)).toBe(registry);
});
