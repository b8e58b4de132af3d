import { expect, test } from 'vitest';
import type { BootPhase } from '../../../contract/supervision/boots.ts';
import { emptyBootPhase, sampleBootPhase, sampleLearning, samplePoolBoots } from '../../testing/boots-samples.ts';
import { plain } from '../text/palette.ts';
import { displayWidth } from '../text/text.ts';
import { type BootsContext, bootsLines } from './boots.ts';

const shown = (phases: BootPhase[], context: Partial<BootsContext> = {}) =>
  bootsLines(samplePoolBoots(), phases, {
    paint: plain,
    width: 100,
    nowMs: Date.parse('2026-01-01T12:10:00.000Z'),
    commandLine: (...words) => ['slipway', ...words].join(' '),
    draws: false,
    ...context,
  });

test('a phase says what its boots come to, its budget and what moves it', () => {
  expect(shown([sampleBootPhase()])).toEqual([
    'gpu · provision, from launch until it registers',
    '  on record         the newest 41 boots, and 2 on the way now',
    '  half within       226 s  (95 % sure: 202 s to 250 s)',
    '  90 of 100 within  294 s  (95 % sure: 274 s to 423 s)',
    '  99 of 100 within  423 s  (95 % sure: at least 294 s)',
    '  budget            720 s, as the pool says; who comes up to 360 s later is rescued',
    '  too slow for it   none of 40 that arrived (95 % sure: at most 7.2 %)',
    '  since it changed  41 boots, 0 late, 1 given up for good  (10m ago)',
    '  policy            fixed: it stays until somebody changes it',
    '  Try another budget:  slipway what-if gpu --budget 635',
    '',
    'What the pool makes (image registry.example/gpu:7, its spec and class) was last changed 10m ago, by',
    'generation 3.',
  ]);
});

test('a learned budget says where it goes, why, from whom, and what stops it', () => {
  const learning = sampleLearning({
    frozen: 'the brake holds since 2026-01-01T12:04:00.000Z: 8 of 12 would be given up',
  });
  const text = shown([sampleBootPhase({ policy: 'learned', budget_source: 'learned', learning })]);
  expect(text).toContain('  policy            learned: boots move it, by at most 25 % a day; on its way to 635 s');
  expect(text.join('\n')).toMatch(/because +of 40 completed boots .*\n.* 635 s\n/);
  expect(text).toContain('  frozen            the brake holds since 2026-01-01 12:04:00Z: 8 of 12 would be given up');
  expect(text.join('\n')).toMatch(/See every move of it: +\S+ audit --target gpu --kind budget\.learned/);
  const there = sampleBootPhase({ policy: 'learned', learning, budget_seconds: learning?.aim_seconds ?? 0 });
  expect(shown([there])).toContain('  policy            learned: boots move it, by at most 25 % a day');
  expect(shown([sampleBootPhase({ policy: 'learned' })]).join('\n')).toContain('they have not been asked yet');
});

test('a phase without boots says so and draws nothing', () => {
  expect(shown([emptyBootPhase], { draws: true })).toEqual([
    'gpu · start, from there until it is ready',
    '  No boot is on record yet.',
    '  budget  120 s, by default; who comes up to 360 s later is rescued',
    '  policy  fixed: it stays until somebody changes it',
    '',
    'What the pool makes (image registry.example/gpu:7, its spec and class) was last changed 10m ago, by',
    'generation 3.',
  ]);
});

test('the plot falls from all to those that never came, with its band and the budget, in the width of the terminal', () => {
  for (const width of [40, 80, 200]) {
    const text = shown([sampleBootPhase()], { draws: true, width });
    expect(Math.max(...text.slice(2, 18).map(displayWidth))).toBeLessThanOrEqual(Math.max(width, 40));
    expect(text.filter((line) => line.includes('┃')).length).toBeGreaterThanOrEqual(12);
    expect(text[2]).toMatch(/budget 720 s ▼|▼ budget 720 s/);
    expect(text[3]).toMatch(/^ 100 % │⠉⠉/);
    expect(text.slice(3, 15).join('')).toContain('░');
    const budget = text[3]?.indexOf('┃') ?? -1;
    expect(text.find((line) => line.includes('└'))?.[budget]).toBe('┻');
  }
});
