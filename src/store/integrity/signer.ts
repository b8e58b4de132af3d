/**
 * Signing keys of checkpoints and certificates, derived from the key ring, which is not in the
 * database.
 */
import type { KeyObject } from 'node:crypto';
import { type KeyRing, type SigningKey, signingKeyOf } from '../../base/credentials/key-ring.ts';

export interface EvidenceSigner {
  current(): SigningKey;
  /** The current key, or a former one that the ring still holds. */
  byId(kid: string): SigningKey | undefined;
  all(): SigningKey[];
}

export function evidenceSigner(ring: KeyRing): EvidenceSigner {
  const derived = new Map<string, SigningKey>();
  const derive = (key: KeyRing['current']): SigningKey => {
    const known = derived.get(key.kid) ?? signingKeyOf(key, 'evidence');
    derived.set(key.kid, known);
    return known;
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
