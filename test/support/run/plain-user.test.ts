import { expect, test } from 'vitest';
import { becomePlainUser } from './plain-user.ts';

test('refuses a file that shares its process with others', () => {
  const before = process.getuid?.();
  expect(becomePlainUser).toThrow('*.unprivileged.test.ts');
  expect(process.getuid?.()).toBe(before);
});
