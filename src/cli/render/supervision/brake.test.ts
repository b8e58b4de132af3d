/** Checks the text of the brake: without a hold, with holds, and with earlier holds. */
import { expect, test } from 'vitest';
import type { Brake } from '../../../contract/supervision/supervision.ts';
import { sampleBrake, sampleHold, sampleWindow } from '../../testing/supervision-samples.ts';
import { plain } from '../text/palette.ts';
import { brakeLines } from './brake.ts';

const render = (fields: Partial<Brake>, width = 90) =>
  brakeLines(sampleBrake(fields), {
    paint: plain,
    width,
    nowMs: Date.parse('2026-01-01T12:10:00.000Z'),
    commandLine: (...words) => ['slipway', ...words].join(' '),
  });

test('says that nothing is held, and how far heartbeats are processed', () => {
  expect(render({})).toEqual(['✔ Nothing is held back. All heartbeats are processed.']);
  expect(render({ heard_through: '2026-01-01T12:09:00.000Z' })[0]).toContain('of the last 1m are not processed yet');
  expect(render({ heard_through: null })[0]).toContain('No replica has reported');
});

test('shows a hold with its reason, effect, end and the command to release it', () => {
  const held = [{ rule: 'liveness', kind: 'mass-failure', nodes: 8 }];
  expect(render({ holding: true, held, holds: [sampleHold()] })).toEqual([
    '! 8 verdicts are held back.',
    '  liveness  8 nodes, mass-failure',
    '  List the nodes:  slipway nodes --held',
    '  All heartbeats are processed.',
    '',
    '! liveness in pool fleet, for 6m',
    '  8 of 12 machines in pool fleet would be given up within 60 s.',
    '  Its verdicts wait: no machine fails or is destroyed. A machine that recovers leaves the',
    '  hold. Until 2026-01-01 12:54:00Z (in 44m), then a few verdicts per minute.',
    '  Release this hold:  slipway brake resume --hold hold_1 --reason "…"',
  ]);
});

test('says that a hold pauses launches', () => {
  const text = render({ holding: true, holds: [sampleHold({ effect: 'pause-launches', rule: 'provision-deadline' })] });
  expect(text[0]).toBe('! The brake is on.');
  expect(text.join(' ')).toContain('Failed machines stay failed, and nothing new is launched there.');
});

test('lists the newest five earlier holds and gaps, and maintenance windows', () => {
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
  const text = render({ holds: [over], gaps: Array(7).fill(gap), maintenance: [sampleWindow()] }, 110);
  expect(text).toContain('liveness  pool fleet  6m ago  released 2m ago by ops');
  expect(text).toContain('switch  zone eu-1, rack=7  open, ends in 45m 00s  ops  a new switch');
  expect(text.filter((line) => line.includes('no replica could hear'))).toHaveLength(5);
  expect(text.at(-1)).toBe('… and 2 more; see --json');
});
