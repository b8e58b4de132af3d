/** Checks the text of progress: headline, bar, outlook, chips, and how they fit the terminal. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sampleProgress } from '../../testing/samples.ts';
import { type Paint, plain } from '../text/palette.ts';
import { displayWidth } from '../text/text.ts';
import {
  type Bar,
  barLine,
  changeLine,
  chipLines,
  headline,
  listText,
  outlook,
  type ProgressView,
  progressLines,
  type ReadableProgress,
  raiseBar,
} from './progress.ts';

const view = (progress: ReadableProgress, more: Partial<ProgressView> = {}): ProgressView => ({
  progress,
  seen_seconds_ago: 0,
  bar: raiseBar(null, progress),
  ...more,
});

const registering = sampleProgress({
  step: 3,
  total_steps: 5,
  label: 'Registering',
  percent: 52,
  step_elapsed_seconds: 4,
  elapsed_seconds: 8,
  message: 'waiting for the agent to call',
});

const engineAway = { code: 'engine_away', owner_layer: 'operator', message: 'the engine does not answer' };

describe('the headline', () => {
  test('shows step, label, usual duration and time in this step', () => {
    const expected = { p50_seconds: 2, p90_seconds: 5, samples: 40 };
    expect(headline(view({ ...registering, expected }))).toBe('Step 3/5 · Registering (usually 2–5 s) · 4s');
    const few = { ...expected, p90_seconds: 2.1, samples: 3 };
    const announced = { p50_seconds: 300, p90_seconds: 600, samples: 0 };
    expect(headline(view({ ...registering, expected: announced }))).toBe('Step 3/5 · Registering (5–10 min) · 4s');
    expect(headline(view({ ...registering, expected: few }))).toBe(
      'Step 3/5 · Registering (usually 2 s, seen 3 times) · 4s',
    );
  });
  test('keeps counting between two updates', () => {
    expect(headline(view(registering, { seen_seconds_ago: 61 }))).toBe('Step 3/5 · Registering · 1m 05s');
  });
  test('stops counting when the operation is over', () => {
    const over = { ...registering, status: 'succeeded' as const };
    expect(headline(view(over, { seen_seconds_ago: 61 }))).toBe('Step 3/5 · Registering · 4s');
  });
  test('needs only the four guaranteed fields', () => {
    const bare = { workflow_id: 'op_1', status: 'running', phase: 'register', elapsed_seconds: 7 } as const;
    expect(progressLines(view(bare), { width: 80, paint: plain })).toEqual(['register · 7s', '7s so far']);
    expect(changeLine(view(bare))).toBe('register');
  });
});

describe('the bar', () => {
  test('never goes back', () => {
    const arrivals = fc.array(fc.double({ min: 0, max: 100, noNaN: true }), { minLength: 1 });
    fc.assert(
      fc.property(arrivals, (percents) => {
        let bar: Bar | null = null;
        for (const percent of percents) {
          const before: number = bar?.percent ?? 0;
          bar = raiseBar(bar, sampleProgress({ workflow_id: 'op_1', percent }));
          expect(bar?.percent).toBeGreaterThanOrEqual(before);
        }
      }),
    );
  });
  test('starts at its own percentage for another operation', () => {
    expect(raiseBar({ workflow_id: 'op_1', percent: 90 }, sampleProgress({ workflow_id: 'op_2', percent: 5 }))).toEqual(
      {
        workflow_id: 'op_2',
        percent: 5,
      },
    );
  });
  test('is full only at 100 %', () => {
    expect(barLine(99.9, 10, plain, 'busy')).toBe('━━━━━━━━━╸');
    expect(barLine(100, 10, plain, 'busy')).toBe('━━━━━━━━━━');
    expect(barLine(0, 10, plain, 'busy')).toBe('──────────');
    expect(barLine(52, 10, plain, 'busy')).toBe('━━━━━─────');
  });
});

describe('the outlook', () => {
  const expected = { p50_seconds: 3, p90_seconds: 5, samples: 40 };
  test.each<[string, Partial<ReadableProgress>, number, string]>([
    ['shows an estimate', { eta_seconds: 3, expected }, 0, 'about 3s left'],
    ['counts the estimate down', { eta_seconds: 3, expected }, 2, 'about 1s left'],
    ['says that the estimate has passed', { eta_seconds: 3, expected }, 9, 'should be done by now'],
    ['is empty without an estimate', { eta_seconds: null, expected }, 0, ''],
    ['is empty without history', { eta_seconds: null, expected: null }, 0, ''],
    [
      'names a slow step',
      { eta_seconds: 1, expected, slower_than: 0.928 },
      0,
      'about 1s left · slower than 92 % of earlier runs of this step',
    ],
    ['does not call a normal step slow', { eta_seconds: 1, expected, slower_than: 0.2 }, 0, 'about 1s left'],
    [
      'names a stalled step',
      { eta_seconds: null, expected: null, stalled: true },
      0,
      'stalled: no progress for longer than usual',
    ],
    [
      'says first that the step fails',
      { failing: { ...engineAway, tries: 4, seconds: 200 }, retry_after_seconds: 30, expected },
      10,
      'failing for 3m 30s (4 tries) · next try in 20s',
    ],
    [
      'names no time for a failure of unknown age',
      { failing: { ...engineAway, tries: 1, seconds: null }, expected },
      10,
      'failing',
    ],
    ['counts down to a retry', { eta_seconds: null, expected: null, retry_after_seconds: 30 }, 10, 'next try in 20s'],
  ])('%s', (_, fields, seen_seconds_ago, text) => {
    expect(outlook(view({ ...registering, ...fields }, { seen_seconds_ago }))).toBe(text);
  });
});

describe('a step that fails', () => {
  const failing = { ...registering, message: '', failing: { ...engineAway, tries: 4, seconds: 200 } };

  test('shows its error, and the bar in the colour of a warning', () => {
    const toned: [string, string][] = [];
    const paint: Paint = (tone, text) => {
      if (tone === 'warn') toned.push([tone, text]);
      return text;
    };
    expect(progressLines(view(failing), { width: 120, paint }).at(-1)).toBe('the engine does not answer');
    expect(toned.map(([, text]) => text)).toEqual(['━━━━━━━━━━━━━━━╸', 'the engine does not answer']);
  });

  test('is named in a line of its own, and in lists in place of the percentage', () => {
    expect(changeLine(view(failing))).toBe('Step 3/5 · Registering · failing · the engine does not answer');
    expect(listText(failing)).toBe('3/5 Registering failing: the engine does not answer');
    expect(listText(registering)).toBe('3/5 Registering 52 %');
  });
});

describe('chips', () => {
  const parts = [
    { name: 'machine', kind: 'process', state: 'up', tone: 'ok' as const },
    { name: 'agent', kind: 'agent', state: 'registering', tone: 'busy' as const, detail: 'try 2' },
    { name: 'workers', kind: 'pod', state: 'failed', tone: 'bad' as const, count: 3 },
  ];
  test('show their state by words and a mark, never by colour alone', () => {
    expect(chipLines(parts, 80, plain)).toEqual(['✔ machine up   ◐ agent registering (try 2)   ✖ workers ×3 failed']);
  });
  test('count the nodes of a pool as nodes', () => {
    const pool = { name: 'blastpool', kind: 'pool', state: 'Creating', tone: 'busy' as const, count: 10 };
    expect(chipLines([pool], 80, plain)).toEqual(['◐ blastpool Creating 10n']);
  });
  test('wrap onto another line', () => {
    expect(chipLines(parts, 30, plain)).toEqual(['✔ machine up', '◐ agent registering (try 2)', '✖ workers ×3 failed']);
  });
});

test('fits every line into the width of the terminal', () => {
  const full = { ...registering, message: 'x'.repeat(300), eta_seconds: 12, slower_than: 0.95 };
  for (const width of [20, 40, 60, 80, 200])
    for (const line of progressLines(view(full), { width, paint: plain }))
      expect(displayWidth(line), `${width}: ${line}`).toBeLessThanOrEqual(width);
});

test('removes control sequences from the message of a machine', () => {
  const evil = { ...registering, message: 'ok\x1b[2J\x1b]0;owned\x07 done\nfake line' };
  const lines = progressLines(view(evil), { width: 80, paint: plain });
  expect(lines.join('\n')).not.toContain('\x1b');
  expect(lines).toContain('ok done fake line');
});
