/** The repository follows every house rule, and each rule detects violations in its examples. */
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
  test('has no violation in the repository', () => {
    const violations = rule.check(repository).map(({ path, what }) => `${path} ${what}`);
    expect(violations).toEqual([]);
  });

  test('detects the violation in each broken example', () => {
    expect(rule.broken.length).toBeGreaterThan(0);
    for (const files of rule.broken) expect(rule.check(files), JSON.stringify(files)).not.toEqual([]);
  });

  test('accepts the correct example', () => {
    expect(rule.check(rule.fine)).toEqual([]);
  });
});
