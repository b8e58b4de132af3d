/** Verifies Ed25519 signatures with public keys received over the wire (SPKI DER, base64). */
import { createHash, createPublicKey, verify } from 'node:crypto';

export function isSignedWith(public_key: string, text: string, signature: string): boolean {
  const key = createPublicKey({ key: Buffer.from(public_key, 'base64'), format: 'der', type: 'spki' });
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'));
}

/** Short enough for people to compare by eye. */
export const fingerprintOf = (public_key: string): string =>
  createHash('sha256').update(Buffer.from(public_key, 'base64')).digest('hex').slice(0, 16);
