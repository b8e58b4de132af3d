import { expect, test } from 'vitest';
import type { FoundThing } from '../../contract/fleet/find.ts';
import { mainTargetOf } from './find.ts';

const thing = (fields: Partial<FoundThing>): FoundThing => ({
  ...{ kind: 'node', id: 'node_1', name: 'web', status: 'ready', over: false },
  ...{ node_id: 'node_1', node_instance_id: null, allocation_id: null },
  ...fields,
});
const retired = thing({ id: 'node_2', node_id: 'node_2', status: 'retired', over: true });
const idOf = (items: FoundThing[], isCorrelationId = false) => mainTargetOf(items, isCorrelationId)?.id;

test('prefers the machine that has the name now to a retired one that had it', () => {
  expect(idOf([retired, thing({})])).toBe('node_1');
  expect(idOf([retired])).toBe('node_2');
});

test('resolves a correlation id to its allocation, even a released one; without an allocation, to its operation', () => {
  const operation = thing({ kind: 'operation', id: 'op_1' });
  const allocation = thing({ kind: 'allocation', id: 'alloc_1', over: true });
  expect(idOf([thing({}), operation, allocation], true)).toBe('alloc_1');
  expect(idOf([thing({}), operation], true)).toBe('op_1');
  expect(idOf([thing({}), retired], true)).toBeUndefined();
});

test('resolves an instance to its machine, and returns the instance too', () => {
  expect(mainTargetOf([thing({ node_instance_id: 'inst_1' })], false)).toEqual({
    kind: 'node',
    id: 'node_1',
    node_instance_id: 'inst_1',
  });
});

test('resolves residue and findings to their machine, or without one to their allocation', () => {
  expect(idOf([thing({ kind: 'residue', id: 'res_1' })])).toBe('node_1');
  expect(idOf([thing({ kind: 'finding', id: 'find_1', node_id: null, allocation_id: 'alloc_1' })])).toBe('alloc_1');
  expect(idOf([thing({ kind: 'residue', id: 'res_1', node_id: null })])).toBeUndefined();
});

test('resolves to no resource if several resources of a kind match', () => {
  expect(idOf([thing({}), thing({ id: 'node_3' })])).toBeUndefined();
});
