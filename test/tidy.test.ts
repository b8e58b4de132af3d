/** Style is a test: every rule holds over the whole repository, and every rule finds what is planted for it. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { readTree } from './support/tidy/source.ts';
import { tidyRules } from './support/tidy/tidy-rules.ts';

const repository = readTree(fileURLToPath(new URL('..', import.meta.url)));

test('the whole repository is looked at', () => {
  const paths = repository.map(({ path }) => path);
  for (const part of ['src/', 'test/', 'scripts/', 'console/']) {
    expect(paths.some((path) => path.startsWith(part))).toBe(true);
  }
  expect(paths).toContain('package-lock.json');
});

describe.for(tidyRules)('$name', (rule) => {
  test('holds here', () => {
    const found = rule.check(repository).map(({ path, what }) => `${path} ${what}`);
    expect(found).toEqual([]);
  });

  test('fails where it is broken', () => {
    expect(rule.broken.length).toBeGreaterThan(0);
    for (const tree of rule.broken) expect(rule.check(tree), JSON.stringify(tree)).not.toEqual([]);
  });

  test('spares what only looks like it', () => {
    expect(rule.check(rule.fine)).toEqual([]);
  });
});
