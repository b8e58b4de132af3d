import { readFile, writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { handle } from '../conformance.ts';
import type { EnsureTarget } from '../driver.ts';
import { type LocalFixture, localFixture, until } from './testing/local-fixture.ts';

let fixture: LocalFixture;
beforeEach(async () => {
  fixture = await localFixture({ clean_timeout_seconds: 60 });
});
afterEach(() => fixture.close());

async function startAndStop(target: EnsureTarget) {
  const machine = handle(fixture, target);
  await machine.done('ensure');
  await machine.done('stop');
  return machine;
}

const countRuns = async (target: EnsureTarget) =>
  (await readFile(fixture.work(target, 'runs'), 'utf8').catch(() => '')).length;

it('runs the script once for repeated calls, also by another driver', async () => {
  const target = fixture.withSpec({ clean: 'printf x >>runs; printf "$WHO" >who', env: { WHO: 'me' } });
  await startAndStop(target);
  await handle(fixture, target, 'crash_after_each_call').done('clean');
  await handle(fixture, { ...target, state: {} }, 'crash_before_each_call').done('clean');
  expect(await countRuns(target)).toBe(1);
  expect(await readFile(fixture.work(target, 'who'), 'utf8')).toBe('me');
});

it('does not run the script if the agent has cleaned already', async () => {
  const target = fixture.withSpec({ clean: 'printf x >>runs' });
  const machine = await startAndStop(target);
  await writeFile(fixture.file(target, 'cleaned'), JSON.stringify({ nonce: 'n', workflow_id: target.workflow_id }));
  await machine.done('clean');
  expect(await countRuns(target)).toBe(0);
});

it('runs the script again for another release', async () => {
  const target = fixture.withSpec({ clean: 'printf x >>runs; test ! -e locked' });
  const machine = await startAndStop(target);
  await machine.done('clean');
  const nextRelease = { ...target, workflow_id: newWorkflowId(systemClock) };
  await handle(fixture, nextRelease).done('clean');
  expect(await countRuns(target)).toBe(2);
  // The result of an abandoned run does not count for a later operation.
  await writeFile(fixture.file(target, 'clean.status'), '0');
  await writeFile(fixture.work(target, 'locked'), '');
  const last = handle(fixture, { ...target, workflow_id: newWorkflowId(systemClock) });
  expect(await last.ended('clean')).toMatchObject({ outcome: 'failed', code: 'clean_failed' });
  expect(await countRuns(target)).toBe(3);
});

it('fails with the last lines on a non-zero exit code, and runs again when called again', async () => {
  const target = fixture.withSpec({
    clean: 'printf x >>runs; [ -e unlocked ] || { echo the volume is locked; exit 4; }',
  });
  const machine = await startAndStop(target);
  const failed = await machine.ended('clean');
  expect(failed).toMatchObject({ outcome: 'failed', owner_layer: 'node', code: 'clean_failed', retryable: true });
  expect(failed.message).toBe('clean exited with code 4: the volume is locked');
  await writeFile(fixture.work(target, 'unlocked'), '');
  await machine.done('clean');
  expect(await countRuns(target)).toBe(2);
});

it('waits for a script that another driver started, and starts the script again if it was killed', async () => {
  const target = fixture.withSpec({ clean: 'printf x >>runs; while [ ! -e go ]; do sleep 0.02; done' });
  await startAndStop(target);
  expect(await fixture.open().clean(target)).toMatchObject({ outcome: 'wait' });
  await until(async () => (await countRuns(target)) === 1, 'clean runs');
  expect(await fixture.open().clean(target)).toMatchObject({ outcome: 'wait' });
  expect(await countRuns(target)).toBe(1);
  await fixture.killMachine(target);
  await writeFile(fixture.work(target, 'go'), '');
  await handle(fixture, target).done('clean');
  expect(await countRuns(target)).toBe(2);
});

it('kills a script that exceeds the time limit', async () => {
  await fixture.close();
  fixture = await localFixture({ clean_timeout_seconds: 1 });
  const target = fixture.withSpec({ clean: 'echo waiting for a lock; sleep 1000' });
  const machine = await startAndStop(target);
  const failed = await machine.ended('clean');
  expect(failed).toMatchObject({ outcome: 'failed', code: 'clean_timed_out', retryable: true });
  expect(failed.message).toContain('waiting for a lock');
  await until(async () => (await fixture.pids(target)).length === 0, 'the hung script has ended');
});

it('still finds and destroys a machine whose script removed everything that it could reach', async () => {
  const target = fixture.withSpec({ setup: 'touch a .b', clean: 'rm -rf ./* ./.[!.]* "$HOME"' });
  const machine = await startAndStop(target);
  await machine.done('clean');
  expect(await fixture.open().list_owned(fixture.installation_id)).toHaveLength(1);
  await machine.done('destroy');
  expect(await fixture.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
});
