import { expect, test } from 'vitest';
import { renderFinding } from './finding-says.ts';

const contested = (ours: object, theirs: object) =>
  renderFinding({
    what: 'name_contested',
    ours: { name: 'scout', ...ours },
    theirs: { because: 'two_processes', protocol: 'agentfield', ...theirs },
  });

test('names the addresses and the sources of both processes that use a contested name', () => {
  expect(
    contested({ endpoint: 'http://10.0.0.1:8001' }, { endpoint: 'http://10.0.0.2:8001', source: '10.0.0.2' }),
  ).toBe(
    'two live processes use this name: http://10.0.0.1:8001 has it, http://10.0.0.2:8001 (from 10.0.0.2) does not',
  );
  expect(contested({ source: '10.0.0.1' }, { source: '10.0.0.2' })).toBe(
    'two live processes use this name: 10.0.0.1 has it, 10.0.0.2 does not',
  );
});

test('omits missing addresses', () => {
  expect(contested({ endpoint: null }, { endpoint: null })).toBe('two live processes use this name');
});
