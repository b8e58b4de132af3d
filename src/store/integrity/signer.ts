/**
 * Derives the keys that sign checkpoints and certificates from the key ring. The ring is a file
 * outside the database, so changing the database is not enough to forge a signature.
 */
import type { KeyObject } from 'node:crypto';
import { type KeyRing, type SigningKey, signingKeyOf } from '../../base/credentials/key-ring.ts';

export interface EvidenceSigner {
  current(): SigningKey;
  /** Returns the current key, or a former key that is still in the ring. */
  byId(kid: string): SigningKey | undefined;
  all(): SigningKey[];
}

export function createEvidenceSigner(ring: KeyRing): EvidenceSigner {
  const derived = new Map<string, SigningKey>();
  const derive = (key: KeyRing['current']): SigningKey => {
    const signingKey = derived.get(key.kid) ?? signingKeyOf(key, 'evidence');
    derived.set(key.kid, signingKey);
    return signingKey;
  };
  return {
    current: () => derive(ring.current),
    byId(kid) {
      const key = ring.byId(kid);
      return key && derive(key);
    },
    all: () => ring.all.map(derive),
  };
}

export const exportPublicKey = (key: KeyObject): string =>
  key.export({ type: 'spki', format: 'der' }).toString('base64');
