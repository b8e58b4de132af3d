import { expect, test } from 'vitest';
import { countByStatus } from './print-listing.ts';

test('counts rows by status, most frequent first, with the right plural', () => {
  const rows = ['failed', 'ready', 'ready'].map((status) => ({ status }));
  expect(countByStatus('node', rows)).toBe('3 nodes: 2 ready, 1 failed');
  expect(countByStatus('entry', rows, 'entries')).toBe('3 entries: 2 ready, 1 failed');
  expect(countByStatus('entry', rows.slice(0, 1), 'entries')).toBe('1 entry: 1 failed');
});
