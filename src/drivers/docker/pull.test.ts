/** One pull serves all machines that wait for it, and its messages reveal no credentials. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { newNodeInstanceId } from '../../base/ids.ts';
import type { Engine } from './engine.ts';
import { createPulls } from './pull.ts';
import { registryAuth, registryOf, secretsOf } from './registry-auth.ts';

const engine = (pull: Engine['pull']) => ({ address: 'unix:///engine.sock', pull }) as Engine;
const newWaiter = () => newNodeInstanceId(systemClock);

it('pulls once for all waiting machines, reports the end to each, and starts again for later ones', async () => {
  let pulls = 0;
  let finish = () => {};
  const slow = engine(() => {
    pulls++;
    return new Promise((resolve) => {
      finish = resolve;
    });
  });
  const { ask } = createPulls(null);
  const [one, two] = [newWaiter(), newWaiter()];
  expect(await ask(slow, 'worker', one)).toMatchObject({ outcome: 'wait' });
  expect(await ask(slow, 'worker', two)).toMatchObject({ outcome: 'wait' });
  finish();
  await until('the pull to end', async () => ((await ask(slow, 'worker', one)) === null ? true : undefined));
  expect(await ask(slow, 'worker', newWaiter()), 'another waits for a pull of its own').toMatchObject({
    outcome: 'wait',
  });
  expect(pulls).toBe(2);
});

it('cancels a pull when its last machine gives up, and no other', async () => {
  const signals: AbortSignal[] = [];
  const endless = engine((_image, _auth, _onEvent, signal) => {
    signals.push(signal);
    return new Promise(() => {});
  });
  const { ask, forget } = createPulls(null);
  const [one, two] = [newWaiter(), newWaiter()];
  for (const each of [one, two]) await ask(endless, 'worker', each);
  await until('the pull to begin', () => (signals.length === 1 ? true : undefined));
  forget(one);
  expect(signals[0]?.aborted).toBe(false);
  forget(two);
  expect(signals[0]?.aborted).toBe(true);
});

const password = 'correct-horse-battery';
const auth = Buffer.from(`slipway:${password}`).toString('base64');

it('reveals no registry credentials, whatever the engine repeats', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-login-'));
  const file = join(directory, 'config.json');
  writeFileSync(file, JSON.stringify({ auths: { 'registry.example.com': { auth } } }));
  const known = await registryAuth(file, 'registry.example.com/team/worker:1');
  expect(known).toEqual({ serveraddress: 'registry.example.com', username: 'slipway', password });
  const secrets = secretsOf(known);
  expect(secrets).toEqual(expect.arrayContaining([password, auth]));
  const talkative = engine(async () => {
    throw new Error(`unauthorized: ${secrets.join(' or ')} will not do`);
  });
  const { ask } = createPulls(file);
  const who = newWaiter();
  const answer = await until('an answer', async () => {
    const given = await ask(talkative, 'registry.example.com/team/worker:1', who);
    return given?.outcome === 'failed' ? given : undefined;
  });
  expect(answer).toMatchObject({ code: 'image_denied', owner_layer: 'provider' });
  for (const secret of secrets) expect(answer.message).not.toContain(secret);

  writeFileSync(file, `{"auths": ${auth}`);
  const unreadable = await until('an answer', async () => {
    const given = await ask(talkative, 'worker', who);
    return given?.outcome === 'failed' ? given : undefined;
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
])('%s is at %s', (image, registry) => {
  expect(registryOf(image)).toBe(registry);
});
