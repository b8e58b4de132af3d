/**
 * Tests how YAML is read and which texts are refused. test/api/input/linear-input.test.ts measures
 * how the cost grows with the size of a text.
 */
import { expect, it } from 'vitest';
import { hostileYaml } from '../../../../test/api/support/hostile-input.ts';
import { expectLinear } from '../../../../test/support/growth.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { maxYamlBytes, parseWithoutStacks, readYaml } from './yaml.ts';

const codeOf = (text: string): string => {
  try {
    readYaml(text);
    return 'read';
  } catch (error) {
    return error instanceof ApiProblem ? error.code : String(error);
  }
};

it('reads a pool document with comments, anchors and blocks', () => {
  const text = `# the GPU pool
driver: external
labels: &labels { team: "ml", zone: a }
more:
  labels: *labels
requires:
  - name: disk
    check: |
      df -h /data
      test -d /data
budgets: { provision_seconds: 720 }
`;
  expect(readYaml(text)).toEqual({
    driver: 'external',
    labels: { team: 'ml', zone: 'a' },
    more: { labels: { team: 'ml', zone: 'a' } },
    requires: [{ name: 'disk', check: 'df -h /data\ntest -d /data\n' }],
    budgets: { provision_seconds: 720 },
  });
});

it.for([
  ['the same key twice', 'a: 1\nb: 2\na: 3'],
  ['the same key twice in braces', '{a: 1, a: 2}'],
  ['the same key deep inside', 'a:\n  - b: 1\n    b: 2'],
  ['a number and a text that name the same key', '1: a\n"1": b'],
  ['a list as a key', '? [a]\n: b'],
  ['many tokens', `[${'1,'.repeat(9_000)}1]`],
  ['many aliases', `a: &a 1\nb: [${'*a, '.repeat(60)}*a]`],
  ['deep brackets', `${'['.repeat(100)}${']'.repeat(100)}`],
  ['deep lists', `${'- '.repeat(100)}a`],
] as const)('refuses %s', ([, text]) => {
  expect(codeOf(text)).toBe('malformed_json');
});

it('names the line of a mistake', () => {
  expect(() => readYaml('driver: external\nzone: [a\n')).toThrow(/line 3/);
});

it('refuses a text over the size limit, and reads one just below it', () => {
  expect(codeOf(`a: ${'x'.repeat(maxYamlBytes)}`)).toBe('body_too_large');
  expect(codeOf(`a: ${'x'.repeat(maxYamlBytes - 3)}`)).toBe('read');
});

// The limits on size and tokens hide the cost of the parser, so it is measured without them.
it.for(['many keys', 'closing brackets'])('parses %s in linear time without the limits', async (shape) => {
  await expectLinear(shape, 40_000, (size) => hostileYaml[shape]?.(size) ?? '', parseWithoutStacks);
});
