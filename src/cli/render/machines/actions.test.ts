/** Checks the text of an action that has begun. */
import { expect, test } from 'vitest';
import { sampleAllocation, sampleOperation } from '../../testing/samples.ts';
import { sampleAllocationActed } from '../../testing/supervision-samples.ts';
import { plain } from '../text/palette.ts';
import { actedLines } from './actions.ts';

const context = {
  paint: plain,
  width: 120,
  nowMs: Date.parse('2026-01-01T12:10:00.000Z'),
  commandLine: (...words: string[]) => ['slipway', ...words].join(' '),
};

test('shows a pending action without the deadline of the old status', () => {
  const deadline_at = '2026-01-01T12:12:00.000Z';
  const acted = sampleAllocationActed({
    allocation: sampleAllocation({ status: 'failed', deadline_at }),
    operation: sampleOperation({ kind: 'node-provision' }),
    predicts: { status: 'provisioning', deadline_at: null, says: 'a new one is brought up' },
  });
  const text = actedLines('retry', acted, context).join('\n');
  expect(text).toMatch(/status +node-provision has begun; still failed, then provisioning/);
  expect(text).not.toContain('deadline');
  const done = sampleAllocationActed({ allocation: sampleAllocation({ status: 'releasing', deadline_at }) });
  expect(actedLines('release', done, context).join('\n')).toMatch(/status +releasing\n.*deadline/);
});
