/** A key ring in memory, for tests and benchmarks that start no server. */
import { randomBytes } from 'node:crypto';
import type { KeyRing, RingKey } from '../../src/base/credentials/key-ring.ts';

export function memoryKeyRing(): KeyRing {
  const current: RingKey = { kid: 'key_test', created_at: '2030-01-01T00:00:00.000Z', secret: randomBytes(32) };
  return { path: 'keys.json', current, all: [current], byId: (kid) => (kid === current.kid ? current : undefined) };
}
