import { expect, test } from 'vitest';
import { findingSays } from './finding-says.ts';

const contested = (ours: object, theirs: object) =>
  findingSays({
    what: 'name_contested',
    ours: { name: 'scout', ...ours },
    theirs: { because: 'two_processes', protocol: 'agentfield', ...theirs },
  });

test('a contested name names both addresses, and where both are the same, where they came from', () => {
  expect(
    contested({ endpoint: 'http://10.0.0.1:8001' }, { endpoint: 'http://10.0.0.2:8001', source: '10.0.0.2' }),
  ).toBe(
    'another machine asked for its name and was refused: two live processes register under this name in turns; ' +
      'it is held at http://10.0.0.1:8001, the other one is at http://10.0.0.2:8001 (from 10.0.0.2)',
  );
  expect(contested({ source: '10.0.0.1' }, { source: '10.0.0.2' })).toContain(
    'held at 10.0.0.1, the other one is at 10.0.0.2',
  );
});

test('without an address it names none', () => {
  expect(contested({ endpoint: null }, { endpoint: null })).toMatch(/in turns$/);
});
