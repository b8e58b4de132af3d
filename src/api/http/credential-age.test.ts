import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { createCredentialAge } from './credential-age.ts';

const settings = { credential_seconds: 86_400, credential_grace_seconds: 3600 };

test('expires a credential, and lets it rotate within the grace period', () => {
  const clock = virtualClock();
  const { isExpired, mayRotate } = createCredentialAge(clock, settings);
  const now_seconds = Math.floor(clock.nowMs() / 1000);
  expect(isExpired(now_seconds - 1)).toBe(true);
  expect(isExpired(now_seconds + 1)).toBe(false);
  expect(mayRotate(now_seconds - 3599)).toBe(true);
  expect(mayRotate(now_seconds - 3601)).toBe(false);
});

test('never expires a credential without an expiry', () => {
  expect(createCredentialAge(virtualClock(), settings).isExpired(0)).toBe(false);
});
