import { expect, it } from 'vitest';
import { codeOf, reasonOf, targetOf } from './words.ts';

it('reads the error code, reason and target of an audited fact', () => {
  expect(codeOf({ kind: 'request.denied', data: { code: 'role_too_low' } })).toBe('role_too_low');
  expect(codeOf({ kind: 'action.refused', data: {} })).toBe('refused');
  expect(codeOf({ kind: 'pool.declared', data: { code: 'x' } })).toBeNull();
  expect(reasonOf({ summary: 'drain', data: { reason: 'a fan' } })).toBe('a fan');
  expect(reasonOf({ summary: 'drain: a fan', data: { reason: 'a fan' } })).toBeNull();
  expect(reasonOf({ summary: '', data: { reason: { not: 'words' } } })).toBeNull();
  expect(targetOf({ data: { target_id: 'node_1', pool: 'p' } })).toBe('node_1');
  expect(targetOf({ data: { pool: 'p' } })).toBe('p');
  expect(targetOf({ data: {} })).toBeNull();
});
