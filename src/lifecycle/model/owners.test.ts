import { expect, it } from 'vitest';
import { nodeStatusNames } from './states.ts';
import { leavesVerdict, ownerOf } from './transitions.ts';

it.each([
  ['degraded', 'degraded', 'node'],
  ['offline', 'liveness', 'node'],
  ['failed', 'provision-deadline', 'node'],
  ['quarantined', 'quarantine', 'operator'],
  ['quarantined', 'drained', 'operator'],
  ['quarantined', 'drain-deadline', 'operator'],
  ['quarantined', 'clean-deadline', 'provider'],
  ['quarantined', 'drift', 'provider'],
] as const)('%s by %s is owned by %s, unless the decision names an owner', (status, cause, owner) => {
  expect(ownerOf(cause, status, undefined)).toBe(owner);
  expect(ownerOf(cause, status, 'transport')).toBe('transport');
});

it('names an owner only in the statuses degraded, offline, failed and quarantined', () => {
  const owned = nodeStatusNames.filter((status) => ownerOf('quarantine', status, 'node') !== null);
  expect(owned.toSorted()).toEqual(['degraded', 'failed', 'offline', 'quarantined']);
});

it('leaves a verdict for rules and for a quarantine by a person, but not for a report', () => {
  expect(leavesVerdict('quarantine', 'quarantined')).toBe(true);
  expect(leavesVerdict('provision-deadline', 'failed')).toBe(true);
  expect(leavesVerdict('claim-ready', 'ready')).toBe(false);
});
