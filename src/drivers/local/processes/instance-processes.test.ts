import { expect, it } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { isAlive, plant, until } from '../testing/local-fixture.ts';
import { processTable } from './instance-processes.ts';
import { type ProcessRow, procfsReader } from './procfs.ts';

it('does not signal a process with another start time, which reused the pid', async () => {
  const reader = procfsReader(systemClock);
  const { signal } = processTable(systemClock, '/nowhere', reader);
  const pid = plant(['/bin/sleep', '1000'], {});
  const row: ProcessRow = { pid, ppid: 1, session: pid, start: '1', terminal: false, cwd: null, tags: null, argv: [] };
  signal([row], 'SIGKILL');
  // The signals arrive in order, so the process would have ended before SIGSTOP.
  signal([{ ...row, start: reader.startOf(pid) ?? '' }], 'SIGSTOP');
  expect(await isAlive(pid)).toBe(true);
  signal([{ ...row, start: reader.startOf(pid) ?? '' }], 'SIGKILL');
  await until(async () => !(await isAlive(pid)), 'the process with the right start time was killed');
});

it('does not throw if the process has ended', () => {
  const row = { pid: 2 ** 22 + 1, ppid: 1, session: 1, start: '1', terminal: false, cwd: null, tags: null, argv: [] };
  processTable(systemClock, '/nowhere', procfsReader(systemClock)).signal([row], 'SIGKILL');
});
