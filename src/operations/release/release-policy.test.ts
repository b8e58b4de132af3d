import { expect, test } from 'vitest';
import { type ActionSubject, whyNotOnNode } from '../../lifecycle/actions/actions.ts';
import { releaseEffect } from './release-policy.ts';

test('the effect of a release depends on reuse, and on whether the machine is quarantined', () => {
  const external = false;
  expect(releaseEffect({ status: 'ready', reuse: true, external })).toMatch(
    /^its machine is cleaned, .* and becomes free for the next tenant;/,
  );
  expect(releaseEffect({ status: 'quarantined', reuse: true, external })).toMatch(/and stays quarantined;/);
  expect(releaseEffect({ status: 'ready', reuse: false, external })).toBe(
    'its machine is torn down with proof and retired',
  );
  expect(releaseEffect({ status: 'quarantined', reuse: false, external })).toMatch(/nothing is left to inspect$/);
  expect(releaseEffect(null)).toMatch(/^it has no machine/);
});

test('a release without an answer of the agent fails for an external machine, and tears down any other', () => {
  const machine = { status: 'ready', reuse: true } as const;
  expect(releaseEffect({ ...machine, external: true })).toMatch(/silent, the release fails and is retried/);
  expect(releaseEffect({ ...machine, external: false })).toMatch(/silent, the machine is torn down instead$/);
});

test('a refusal that suggests a release warns if the release destroys the machine', () => {
  const quarantined: ActionSubject = {
    ...({
      status: 'quarantined',
      occupancy: 'occupied',
      allocation_status: 'active',
      node_instance_id: 'inst_1',
    } as const),
    ...{ deadline_at: null, held: null, endpoint: null, instance_fenced: null, taken_down_by: null, external: false },
  };
  expect(whyNotOnNode('reimage', { ...quarantined, reuse: false })).toMatch(
    /release the allocation first\. In this pool a release destroys/,
  );
  expect(whyNotOnNode('reimage', { ...quarantined, reuse: true })).toMatch(/release the allocation first\.$/);
});
