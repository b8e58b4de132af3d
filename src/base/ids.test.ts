import { expect, test } from 'vitest';
import { idFieldOf, kindOfId } from './ids.ts';

test('reads the kind from the prefix of an id', () => {
  expect(['node_1', 'inst_1', 'alloc_1', 'op_1'].map(kindOfId)).toEqual(['node', 'instance', 'allocation', 'workflow']);
  expect(['node_1', 'inst_1', 'alloc_1', 'op_1'].map(idFieldOf)).toEqual([
    'node_id',
    'node_instance_id',
    'allocation_id',
    'workflow_id',
  ]);
});

test('returns no kind for a name or an unknown prefix', () => {
  expect(['nodes', 'node', 'allocs', '', '_', 'gpu_1'].map(kindOfId)).toEqual(Array(6).fill(undefined));
  expect(['nodes', 'insts', 'ops', 'hold_1'].map(idFieldOf)).toEqual(Array(4).fill(undefined));
});
