/** Checks the text and the plot of recorded boots. */
import { expect, test } from 'vitest';
import type { BootPhase } from '../../../contract/supervision/boots.ts';
import { emptyBootPhase, sampleBootPhase, sampleLearning, samplePoolBoots } from '../../testing/boots-samples.ts';
import { plain } from '../text/palette.ts';
import { displayWidth } from '../text/text.ts';
import { type BootsContext, bootsLines } from './boots.ts';

const render = (phases: BootPhase[], context: Partial<BootsContext> = {}) =>
  bootsLines(samplePoolBoots(), phases, {
    paint: plain,
    width: 100,
    nowMs: Date.parse('2026-01-01T12:10:00.000Z'),
    commandLine: (...words) => ['slipway', ...words].join(' '),
    drawsPlots: false,
    ...context,
  });

test('shows percentiles, budget and policy of a phase', () => {
  expect(render([sampleBootPhase()])).toEqual([
    'gpu · provision, from launch until the machine registers',
    '  recorded          the newest 41 boots, and 2 in progress',
    '  half within       226 s  (95 % sure: 202 s to 250 s)',
    '  90 of 100 within  294 s  (95 % sure: 274 s to 423 s)',
    '  99 of 100 within  423 s  (95 % sure: at least 294 s)',
    '  budget            720 s, set by the pool; a boot up to 360 s later is rescued',
    '  over the budget   none of 40 that arrived (95 % sure: at most 7.2 %)',
    '  since the change  41 boots, 0 late, 1 failed for good  (10m ago)',
    '  policy            fixed: the budget stays until someone changes it',
    '  Try another budget:  slipway what-if gpu --budget 635',
    '',
    'The pool (image registry.example/gpu:7, its spec and class) last changed 10m ago, with generation 3.',
  ]);
});

test('shows the aim, the reason, the source and the freeze of a learned budget', () => {
  const learning = sampleLearning({
    frozen: 'the brake holds since 2026-01-01T12:04:00.000Z: 8 of 12 would be given up',
  });
  const text = render([sampleBootPhase({ policy: 'learned', budget_source: 'learned', learning })]);
  expect(text).toContain('  policy            learned: recorded boots move it, by at most 25 % a day; moving to 635 s');
  expect(text.join('\n')).toMatch(/because +of 40 completed boots .*\n.* 635 s\n/);
  expect(text).toContain('  frozen            the brake holds since 2026-01-01 12:04:00Z: 8 of 12 would be given up');
  expect(text.join('\n')).toMatch(/See changes of the budget: +\S+ audit --target gpu --kind budget\.learned/);
  const reached = sampleBootPhase({ policy: 'learned', learning, budget_seconds: learning?.aim_seconds ?? 0 });
  expect(render([reached])).toContain('  policy            learned: recorded boots move it, by at most 25 % a day');
  expect(render([sampleBootPhase({ policy: 'learned' })]).join('\n')).toContain('not computed yet');
});

test('draws nothing for a phase without boots', () => {
  expect(render([emptyBootPhase], { drawsPlots: true })).toEqual([
    'gpu · start, from registration until the machine is ready',
    '  No boot is recorded yet.',
    '  budget  120 s, by default; a boot up to 360 s later is rescued',
    '  policy  fixed: the budget stays until someone changes it',
    '',
    'The pool (image registry.example/gpu:7, its spec and class) last changed 10m ago, with generation 3.',
  ]);
});

test('draws the curve, its band and the budget within the width of the terminal', () => {
  for (const width of [40, 80, 200]) {
    const text = render([sampleBootPhase()], { drawsPlots: true, width });
    expect(Math.max(...text.slice(2, 18).map(displayWidth))).toBeLessThanOrEqual(Math.max(width, 40));
    expect(text.filter((line) => line.includes('┃')).length).toBeGreaterThanOrEqual(12);
    expect(text[2]).toMatch(/budget 720 s ▼|▼ budget 720 s/);
    expect(text[3]).toMatch(/^ 100 % │⠉⠉/);
    expect(text.slice(3, 15).join('')).toContain('░');
    const budget = text[3]?.indexOf('┃') ?? -1;
    expect(text.find((line) => line.includes('└'))?.[budget]).toBe('┻');
  }
});
