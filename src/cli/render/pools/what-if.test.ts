/** Checks the text of a tested budget. */
import { expect, test } from 'vitest';
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import { sampleBoot, sampleWhatIf } from '../../testing/boots-samples.ts';
import { plain } from '../text/palette.ts';
import { whatIfLines } from './what-if.ts';

const render = (fields: Partial<WhatIf> = {}) =>
  whatIfLines(sampleWhatIf(fields), {
    paint: plain,
    width: 100,
    nowMs: Date.parse('2026-01-01T12:10:00.000Z'),
    commandLine: (...words) => ['slipway', ...words].join(' '),
  });

test('shows the summary, the affected boots and the next commands', () => {
  expect(render()).toEqual([
    '! With 400 s, 1 of 41 boots would have been given up although it arrived; it would have been',
    '  rescued.',
    '  The current budget (720 s, set by the pool) would have failed none of the boots that arrived.',
    '  Of future boots that arrive, 2.5 % would take longer.',
    '  The one stuck boot would have been found 320 s sooner.',
    '  Based on 41 boots recorded since 2026-01-01 12:01:00Z (9m ago).',
    '',
    'Would have failed although healthy',
    'NODE                        TOOK  OVER BY  RESULT   BUDGET IT HAD    WHEN',
    'node_01k8zq3v7abcdefghjkm  423 s     23 s  rescued          720 s  5m ago',
    '',
    'Stuck boots',
    'NODE        WAITED FOR         FOUND    WHEN',
    'node_stuck       720 s  320 s sooner  7m ago',
    '',
    '  See how long boots take:  slipway boots gpu',
    '  Set this budget:          slipway budget gpu 400 --reason "…"',
  ]);
});

test('marks a lost boot as bad, and counts the boots that are not listed', () => {
  const lost = { ...sampleBoot(900), over_seconds: 500, rescued: false };
  const text = render({ false_kills: [lost], false_kill_count: 12, rescued_count: 2 });
  expect(text[0]).toMatch(/^✖ With 400 s, 12 of 41 boots/);
  expect(text.join('\n')).toMatch(/node_quick +900 s +500 s +lost .*\n… and 11 more\n/);
});

test('shows no list without affected boots', () => {
  const none = { false_kills: [], false_kill_count: 0, rescued_count: 0, stuck: [], stuck_count: 0 };
  const text = render({ ...none, stuck_found_sooner_seconds: null, budget_seconds: 720, undecided_count: 1 });
  expect(text[0]).toBe('✔ With 720 s, none of 41 boots would have been given up before it arrived.');
  expect(text[1]).toBe('  This is the current budget, set by the pool.');
  expect(text).toContain('  1 boot ended for another reason after 720 s; whether it would have arrived is unknown.');
  expect(text.join('\n')).not.toContain('NODE');
  const empty = render({
    ...none,
    boots: 0,
    arrived_count: 0,
    oldest_at: null,
    predicted_false_kill_share: null,
    phase: 'start',
  });
  expect(empty.slice(0, 3)).toEqual([
    '○ With 400 s: unknown, because no boot is recorded.',
    '  The current budget is 720 s, set by the pool.',
    '',
  ]);
  expect(empty.at(-1)).toContain('slipway budget gpu 400 --phase start');
});

test('shows no success if no boot ever arrived', () => {
  const noArrivals = { false_kills: [], false_kill_count: 0, rescued_count: 0, predicted_false_kill_share: null };
  const text = render({ ...noArrivals, boots: 1, arrived_count: 0 });
  expect(text.slice(0, 3)).toEqual([
    '○ With 400 s: unknown, because the one boot on record never arrived.',
    '  The current budget is 720 s, set by the pool.',
    '  The one stuck boot would have been found 320 s sooner.',
  ]);
});
