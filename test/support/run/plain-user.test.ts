import { expect, test } from 'vitest';
import { becomePlainUser } from './plain-user.ts';

test('throws and keeps the user in a test file that is not named *.unprivileged.test.ts', () => {
  const before = process.getuid?.();
  expect(becomePlainUser).toThrow('*.unprivileged.test.ts');
  expect(process.getuid?.()).toBe(before);
});
