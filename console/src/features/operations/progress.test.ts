import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { barPercent, labelOf, outlook, partWords, position, type SparseProgress, usualDuration } from './progress.ts';

let made = 0;
const progress = (fields: Partial<SparseProgress> = {}): SparseProgress => ({
  workflow_id: `op_${made++}`,
  status: 'running',
  phase: 'arm_create_or_update',
  elapsed_seconds: 252,
  ...fields,
});

const expected = { p50_seconds: 300, p90_seconds: 600, samples: 48 };

it('a part shows its state, and its count if it has one', () => {
  const part = { name: 'targets', kind: 'recovery', state: 'under way', tone: 'busy' } as const;
  expect(partWords({ ...part, count: 1 })).toBe('targets ×1 · under way');
  expect(partWords(part)).toBe('targets · under way');
  const pool = { name: 'systempool', kind: 'pool', state: 'Succeeded', tone: 'ok' } as const;
  expect(partWords({ ...pool, count: 1 })).toBe('systempool · Succeeded · 1n');
});

describe('the headline', () => {
  it('has the step, the label and the usual duration', () => {
    const full = progress({ step: 3, total_steps: 5, label: 'Creating AKS cluster', expected });
    expect([position(full), labelOf(full), usualDuration(full)]).toEqual([
      'Step 3/5',
      'Creating AKS cluster',
      'usual 5–10 min',
    ]);
  });

  it('has only the phase if nothing else is known', () => {
    const sparse = progress();
    expect([position(sparse), labelOf(sparse), usualDuration(sparse)]).toEqual([null, 'Arm create or update', null]);
  });

  it('names the operation after success, and the last label after a failure', () => {
    expect(labelOf(progress({ status: 'succeeded', kind: 'node-provision' }))).toBe('Node provision done');
    expect(labelOf(progress({ status: 'failed', label: 'Launching' }))).toBe('Launching');
  });
});

describe('the outlook', () => {
  it('is empty if nothing is known or the operation has ended', () => {
    expect(outlook(progress({ eta_seconds: null, slower_than: null, stalled: false }), 3)).toEqual([]);
    expect(outlook(progress({ status: 'failed', eta_seconds: 100, stalled: true }), 3)).toEqual([]);
  });

  it('counts the estimate down, then says later than expected', () => {
    expect(outlook(progress({ eta_seconds: 190 }), 10)).toEqual(['about 3 min left']);
    expect(outlook(progress({ eta_seconds: 10 }), 12)).toEqual(['later than expected']);
  });

  it('says first that the step fails', () => {
    const failing = { code: 'engine_away', owner_layer: 'operator', message: 'away', tries: 4, seconds: 200 };
    expect(outlook(progress({ failing, retry_after_seconds: 30 }), 10)).toEqual([
      'failing for 3m 30s (4 tries)',
      'next try in 20s',
    ]);
    expect(outlook(progress({ failing: { ...failing, tries: 1, seconds: null } }), 10)).toEqual(['failing']);
  });

  it('mentions slow runs only, and shows the next try', () => {
    expect(outlook(progress({ slower_than: 0.2 }), 0)).toEqual([]);
    expect(outlook(progress({ slower_than: 0.925, stalled: true, retry_after_seconds: 30 }), 4)).toEqual([
      'next try in 26s',
      'no progress for longer than usual',
      'slower than 92 % of earlier runs of this step',
    ]);
  });
});

describe('the bar', () => {
  it('is unknown before the first percentage', () => {
    expect(barPercent(progress())).toBeNull();
  });

  it('never goes back, even if updates arrive out of order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.option(fc.double({ min: -10, max: 120, noNaN: true }), { nil: undefined })),
        (reports) => {
          const { workflow_id } = progress();
          let before = 0;
          for (const percent of reports) {
            const now = barPercent(progress({ workflow_id, percent })) ?? 0;
            expect(now).toBeGreaterThanOrEqual(before);
            expect(now).toBeLessThanOrEqual(100);
            before = now;
          }
        },
      ),
    );
  });

  it('is full after success, and keeps its width after a failure', () => {
    expect(barPercent(progress({ status: 'succeeded', percent: 40 }))).toBe(100);
    expect(barPercent(progress({ status: 'failed', percent: 40 }))).toBe(40);
  });
});
