/** Tests which errors of the container engine mean that another call uses the same container. */
import { expect, it } from 'vitest';
import { isUnpackCollision } from './engine-error.ts';

const engineError = (statusCode: number, message: string) =>
  Object.assign(new Error('client'), { statusCode, json: { message } });

it.each([
  [
    500,
    'copier: put: error setting ownership of "/var/lib/slipway/agent.json" to 0:0: lchown: no such file or directory',
  ],
  [500, 'copier: put: error creating "/var/lib/slipway/agent.json": file exists'],
])('counts as a collision with another call: %i %s', (status, message) => {
  expect(isUnpackCollision(engineError(status, message))).toBe(true);
});

it.each([
  [404, 'no such container'],
  [404, 'no such file or directory'],
  [500, 'copier: put: no space left on device'],
  [403, 'container rootfs is marked read-only'],
])('does not count as a collision: %i %s', (status, message) => {
  expect(isUnpackCollision(engineError(status, message))).toBe(false);
});
