/** Every house rule holds in the whole repository, and finds the violations in its own examples. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { readTree } from './support/tidy/source.ts';
import { tidyRules } from './support/tidy/tidy-rules.ts';

const repository = readTree(fileURLToPath(new URL('..', import.meta.url)));

test('reads the whole repository', () => {
  const paths = repository.map(({ path }) => path);
  for (const part of ['src/', 'test/', 'scripts/', 'console/']) {
    expect(paths.some((path) => path.startsWith(part))).toBe(true);
  }
  expect(paths).toContain('package-lock.json');
});

describe.for(tidyRules)('$name', (rule) => {
  test('holds in this repository', () => {
    const found = rule.check(repository).map(({ path, what }) => `${path} ${what}`);
    expect(found).toEqual([]);
  });

  test('finds the violation in each broken example', () => {
    expect(rule.broken.length).toBeGreaterThan(0);
    for (const tree of rule.broken) expect(rule.check(tree), JSON.stringify(tree)).not.toEqual([]);
  });

  test('accepts the similar but correct example', () => {
    expect(rule.check(rule.fine)).toEqual([]);
  });
});
