import { expect, test } from 'vitest';
import { becomePlainUser } from './plain-user.ts';

test('refuses to run in a process shared with other test files', () => {
  const before = process.getuid?.();
  expect(becomePlainUser).toThrow('*.unprivileged.test.ts');
  expect(process.getuid?.()).toBe(before);
});
