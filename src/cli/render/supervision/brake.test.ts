import { expect, test } from 'vitest';
import type { Brake } from '../../../contract/supervision/supervision.ts';
import { sampleBrake, sampleHold, sampleWindow } from '../../testing/supervision-samples.ts';
import { plain } from '../text/palette.ts';
import { brakeLines } from './brake.ts';

const shown = (fields: Partial<Brake>, width = 90) =>
  brakeLines(sampleBrake(fields), {
    paint: plain,
    width,
    nowMs: Date.parse('2026-01-01T12:10:00.000Z'),
    commandLine: (...words) => ['slipway', ...words].join(' '),
  });

test('nothing held says that all is well', () => {
  expect(shown({})).toEqual([
    '✔ All is well with the brake: nothing is held back. Everything the machines said has been heard.',
  ]);
  expect(shown({ heard_through: '2026-01-01T12:09:00.000Z' })[0]).toContain('in the last 1m has not been heard');
  expect(shown({ heard_through: null })[0]).toContain('No replica has said yet');
});

test('a hold says what, why, what it does, until when, and the way out', () => {
  const held = [{ rule: 'liveness', kind: 'mass-failure', nodes: 8 }];
  expect(shown({ holding: true, held, holds: [sampleHold()] })).toEqual([
    '! 8 verdicts are held back.',
    '  liveness  8 nodes, mass-failure',
    '  Which nodes:  slipway nodes --held',
    '  Everything the machines said has been heard.',
    '',
    '! liveness in pool fleet, for 6m',
    '  8 of 12 machines in pool fleet would be given up within 60 s.',
    '  Its verdicts wait: nobody is given up or destroyed by it. What comes back by itself is',
    '  let go. Until 2026-01-01 12:54:00Z (in 44m), then it goes on slowly, a few a minute.',
    '  Let it go on:  slipway brake resume --hold hold_1 --reason "…"',
  ]);
});

test('one that pauses launches says so', () => {
  const text = shown({ holding: true, holds: [sampleHold({ effect: 'pause-launches', rule: 'provision-deadline' })] });
  expect(text[0]).toBe('! The brake is on.');
  expect(text.join(' ')).toContain('The failures stand, and nothing new is launched there meanwhile.');
});

test('what is over, the windows and our own gaps stand below, the newest five of each', () => {
  const over = sampleHold({
    hold_id: 'hold_0',
    resumed_at: '2026-01-01T12:08:00.000Z',
    resumed_by: { kind: 'token', id: 'tok_1', name: 'ops' },
  });
  const gap = {
    started_at: '2026-01-01T12:00:00.000Z',
    ended_at: '2026-01-01T12:01:00.000Z',
    seconds: 60,
    cause: 'no replica could hear',
    deadlines_moved: 3,
  };
  const text = shown({ holds: [over], gaps: Array(7).fill(gap), maintenance: [sampleWindow()] }, 110);
  expect(text).toContain('liveness  pool fleet  6m ago  let go 2m ago by ops');
  expect(text).toContain('switch  zone eu-1, rack=7  open, ends in 45m 00s  ops  a new switch');
  expect(text.filter((line) => line.includes('no replica could hear'))).toHaveLength(5);
  expect(text.at(-1)).toBe('… and 2 more; see --json');
});
