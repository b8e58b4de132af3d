import { afterEach, expect, it } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { isAlive, plant, signal, until } from '../testing/local-fixture.ts';
import { procfsReader, statFrom } from './procfs.ts';

const planted: number[] = [];
afterEach(async () => {
  for (const pid of planted) signal(pid, 'SIGKILL');
  await until(
    async () => !(await Promise.all(planted.splice(0).map(isAlive))).includes(true),
    'planted processes ended',
  );
});

const tags = { SLIPWAY_INSTALLATION_ID: 'installation-p', SLIPWAY_NODE_INSTANCE_ID: 'inst_p' };

it('reads the tags of a process at every moment of repeated execs', async () => {
  const pid = plant(['/bin/sh', '-c', 'exec /bin/sh -c "$LOOP"'], { ...tags, LOOP: 'exec /bin/sh -c "$LOOP"' });
  planted.push(pid);
  const reader = procfsReader(systemClock);
  const incompleteRows: unknown[] = [];
  for (let reading = 0; reading < 150; reading++) {
    const row = (await reader.read()).find((candidate) => candidate.pid === pid);
    if (row?.tags?.node_instance_id !== 'inst_p' || row.argv[0] !== '/bin/sh') incompleteRows.push(row ?? reading);
  }
  expect(incompleteRows).toEqual([]);
});

/** A line of /proc/<pid>/stat with these fields, by their numbers in the manual. */
function statLine(fields: Record<number, string>): string {
  const rest = Array.from({ length: 50 }, (_, index) => fields[index + 3] ?? '0');
  return `4711 (a (strange) name) ${rest.join(' ')}\n`;
}

const code = { 26: '94721165996032' };
const begins = { 50: '140725502136301' };

it.each([
  ['an exec that has not set the end yet', { ...begins, 51: '140725502136301' }, false],
  ['an exec that has not set the code address yet', { ...begins, 51: '140725502139999' }, false],
  ['a process of another user', { 26: '1' }, false],
  ['a process with an environment', { ...code, ...begins, 51: '140725502139999' }, false],
  ['a process with an empty environment', { ...code, ...begins, 51: '140725502136301' }, true],
])('recognises an empty environment: %s', (_, fields, empty) => {
  expect(statFrom(statLine({ 3: 'R', ...fields }))).toMatchObject({
    name: 'a (strange) name',
    empty_environment: empty,
  });
});

it('does not wait for a process with an empty environment', async () => {
  const pid = plant(['/usr/bin/env', '-i', '/bin/sleep', '1000'], tags);
  planted.push(pid);
  const reader = procfsReader(systemClock);
  await until(
    async () => (await reader.read()).some((row) => row.pid === pid && row.tags === null),
    'the process to have an empty environment',
  );
  // Other starting processes may cause a wait, but not every time; a futile wait would occur every
  // time.
  await until(async () => {
    const began_ms = systemClock.monotonicMs();
    await procfsReader(systemClock).read();
    return systemClock.monotonicMs() - began_ms < 900;
  }, 'a read without a wait');
});

it('reads a stable start time, and null for a missing process', () => {
  const reader = procfsReader(systemClock);
  const pid = plant(['/bin/sleep', '1000'], tags);
  planted.push(pid);
  expect(reader.startOf(pid)).toMatch(/^\d+$/);
  expect(reader.startOf(pid)).toBe(reader.startOf(pid));
  expect(reader.startOf(2 ** 22 + 1)).toBe(null);
});
