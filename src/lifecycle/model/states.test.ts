import { describe, expect, test } from 'vitest';
import {
  allocationStatuses,
  allocationStatusNames,
  displayOccupancy,
  holdingStatuses,
  isFenced,
  nodeStatuses,
  nodeStatusNames,
  occupancyOf,
  type StatusClass,
} from './states.ts';

/** The classes of statuses in the specification. */
const nodeClasses: Record<StatusClass, string[]> = {
  moving: ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
  serving: ['ready', 'degraded'],
  parked: ['quarantined'],
  terminal: ['retired'],
};
const allocationClasses: Record<StatusClass, string[]> = {
  moving: ['requested', 'provisioning', 'releasing', 'failed'],
  serving: ['active'],
  parked: ['release_failed'],
  terminal: ['released'],
};

describe.for([
  { noun: 'node', names: nodeStatusNames, declared: nodeStatuses, classes: nodeClasses },
  { noun: 'allocation', names: allocationStatusNames, declared: allocationStatuses, classes: allocationClasses },
])('$noun statuses', ({ names, declared, classes }) => {
  const declarations: Record<string, { class: StatusClass; deadline: string | null; means: string }> = declared;

  test('have the class that the specification gives them', () => {
    for (const [name, members] of Object.entries(classes))
      expect(names.filter((each) => declarations[each]?.class === name).sort()).toEqual([...members].sort());
  });

  test('have a deadline if and only if they are moving', () => {
    for (const name of names) {
      const { deadline, class: kind } = declarations[name] ?? { deadline: null, class: undefined };
      expect(deadline !== null, name).toBe(kind === 'moving');
    }
  });

  test('have a description of one sentence', () => {
    for (const name of names) expect(declarations[name]?.means).toMatch(/^[A-Z].+\.$/);
  });
});

test('fences failed, draining, cleaning, quarantined and retired nodes', () => {
  expect(nodeStatusNames.filter(isFenced).sort()).toEqual(['cleaning', 'draining', 'failed', 'quarantined', 'retired']);
});

test('derives the occupancy from the allocation', () => {
  const expected = {
    reserved: ['requested', 'provisioning', 'failed'],
    occupied: ['active'],
    cleanup: ['releasing', 'release_failed'],
    free: ['released'],
  };
  for (const [occupancy, statuses] of Object.entries(expected))
    expect(allocationStatusNames.filter((status) => occupancyOf(status) === occupancy).sort()).toEqual(statuses.sort());
  expect(occupancyOf(null)).toBe('free');
  expect(displayOccupancy({ status: 'ready', occupancy: 'free' })).toBe('free');
  for (const status of nodeStatusNames.filter((name) => name !== 'ready')) {
    expect(displayOccupancy({ status, occupancy: 'free' })).toBeNull();
    expect(displayOccupancy({ status, occupancy: 'occupied' })).toBe('occupied');
  }
  expect(displayOccupancy({ status: 'retired', occupancy: 'cleanup' })).toBe('cleanup');
  expect(occupancyOf(null, true)).toBe('cleanup');
  expect(occupancyOf('released', true)).toBe('cleanup');
  expect(occupancyOf('active', true)).toBe('occupied');
});

test('lets an allocation hold its node until it is released', () => {
  expect(allocationStatusNames.filter((status) => !(holdingStatuses as readonly string[]).includes(status))).toEqual([
    'requested',
    'released',
  ]);
});
