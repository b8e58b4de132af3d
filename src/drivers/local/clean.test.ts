import { readFile, writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { handle } from '../conformance.ts';
import type { EnsureTarget } from '../driver.ts';
import { type LocalWorld, localWorld, until } from './testing/local-world.ts';

let world: LocalWorld;
beforeEach(async () => {
  world = await localWorld({ clean_timeout_seconds: 60 });
});
afterEach(() => world.close());

async function stopped(target: EnsureTarget) {
  const machine = handle(world, target);
  await machine.done('ensure');
  await machine.done('stop');
  return machine;
}

const count = async (target: EnsureTarget) =>
  (await readFile(world.work(target, 'runs'), 'utf8').catch(() => '')).length;

it('runs once, however often it is called and by whichever driver', async () => {
  const target = world.withSpec({ clean: 'printf x >>runs; printf "$WHO" >who', env: { WHO: 'me' } });
  await stopped(target);
  await handle(world, target, 'crash_after_each_call').done('clean');
  await handle(world, { ...target, state: {} }, 'crash_before_each_call').done('clean');
  expect(await count(target)).toBe(1);
  expect(await readFile(world.work(target, 'who'), 'utf8')).toBe('me');
});

it('does not run if the agent has cleaned already', async () => {
  const target = world.withSpec({ clean: 'printf x >>runs' });
  const machine = await stopped(target);
  await writeFile(world.file(target, 'cleaned'), JSON.stringify({ nonce: 'n', workflow_id: target.workflow_id }));
  await machine.done('clean');
  expect(await count(target)).toBe(0);
});

it('runs again for another release, because the machine was used since', async () => {
  const target = world.withSpec({ clean: 'printf x >>runs; test ! -e locked' });
  const machine = await stopped(target);
  await machine.done('clean');
  const later = { ...target, workflow_id: newWorkflowId(systemClock) };
  await handle(world, later).done('clean');
  expect(await count(target)).toBe(2);
  // The result of an abandoned run does not count for a later operation.
  await writeFile(world.file(target, 'clean.status'), '0');
  await writeFile(world.work(target, 'locked'), '');
  const last = handle(world, { ...target, workflow_id: newWorkflowId(systemClock) });
  expect(await last.ended('clean')).toMatchObject({ outcome: 'failed', code: 'clean_failed' });
  expect(await count(target)).toBe(3);
});

it('fails with the last lines on a non-zero exit code, and runs again when called again', async () => {
  const target = world.withSpec({
    clean: 'printf x >>runs; [ -e unlocked ] || { echo the volume is locked; exit 4; }',
  });
  const machine = await stopped(target);
  const failed = await machine.ended('clean');
  expect(failed).toMatchObject({ outcome: 'failed', owner_layer: 'node', code: 'clean_failed', retryable: true });
  expect(failed.message).toBe('clean exited with code 4: the volume is locked');
  await writeFile(world.work(target, 'unlocked'), '');
  await machine.done('clean');
  expect(await count(target)).toBe(2);
});

it('is found running by another driver, and restarted if it was killed', async () => {
  const target = world.withSpec({ clean: 'printf x >>runs; while [ ! -e go ]; do sleep 0.02; done' });
  await stopped(target);
  expect(await world.open().clean(target)).toMatchObject({ outcome: 'wait' });
  await until(async () => (await count(target)) === 1, 'clean runs');
  expect(await world.open().clean(target)).toMatchObject({ outcome: 'wait' });
  expect(await count(target)).toBe(1);
  await world.killMachine(target);
  await writeFile(world.work(target, 'go'), '');
  await handle(world, target).done('clean');
  expect(await count(target)).toBe(2);
});

it('is killed if it hangs', async () => {
  await world.close();
  world = await localWorld({ clean_timeout_seconds: 1 });
  const target = world.withSpec({ clean: 'echo waiting for a lock; sleep 1000' });
  const machine = await stopped(target);
  const failed = await machine.ended('clean');
  expect(failed).toMatchObject({ outcome: 'failed', code: 'clean_timed_out', retryable: true });
  expect(failed.message).toContain('waiting for a lock');
  await until(async () => (await world.pids(target)).length === 0, 'hung clean is gone');
});

it('survives a script that removes everything it can see', async () => {
  const target = world.withSpec({ setup: 'touch a .b', clean: 'rm -rf ./* ./.[!.]* "$HOME"' });
  const machine = await stopped(target);
  await machine.done('clean');
  expect(await world.open().list_owned(world.installation_id)).toHaveLength(1);
  await machine.done('destroy');
  expect(await world.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
});
