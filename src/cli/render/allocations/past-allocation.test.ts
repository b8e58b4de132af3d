/** Checks the text of an allocation that is over. */
import { expect, test } from 'vitest';
import { sampleAllocation, sampleEvidence, sampleIds, sampleNode } from '../../testing/samples.ts';
import { plain } from '../text/palette.ts';
import { pastAllocationLines } from './past-allocation.ts';

const at = (minutes: number) => `2026-01-01T12:${String(minutes).padStart(2, '0')}:00.000Z`;
const context = {
  paint: plain,
  width: 200,
  nowMs: Date.parse(at(30)),
  commandLine: (...words: string[]) => ['slipway', ...words].join(' '),
};
const released = sampleAllocation({ status: 'released', active_at: at(0), released_at: at(20), status_since: at(20) });
const request = sampleEvidence({ kind: 'allocation.releasing', at: at(9) });

test('shows the machine of a forced release as quarantined, and counts the use until the request', () => {
  const verdict = { rule: 'force-release', reason: 'released by force without proof', at: at(20) };
  const machine = sampleNode({ status: 'quarantined', verdict });
  const text = pastAllocationLines(released, { request, machine }, context).join('\n');
  expect(text).toContain(`${sampleIds.node_id}, quarantined and not given back: released by force without proof`);
  expect(text).toMatch(/in use +for 9m/);
  expect(text).toContain(`slipway explain ${sampleIds.node_id}`);
});

test('shows a machine that is reused or gone as given back', () => {
  for (const machine of [sampleNode({ status: 'ready' }), null])
    expect(pastAllocationLines(released, { request, machine }, context).join('\n')).toContain('given back');
});
