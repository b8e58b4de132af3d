/**
 * Encrypts the values of secrets with a key derived from the key ring. The name is authenticated
 * with the value, so a row copied under another name cannot be decrypted.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { deriveKey, type KeyRing } from '../../../base/credentials/key-ring.ts';

const ivBytes = 12;
const tagBytes = 16;

export interface SealedSecret {
  name: string;
  kid: string;
  sealed: Buffer;
}

export function sealSecret(ring: KeyRing, name: string, value: string): SealedSecret {
  const key = ring.current;
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', deriveKey(key, 'secrets'), iv);
  cipher.setAAD(Buffer.from(name, 'utf8'));
  const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
  return { name, kid: key.kid, sealed: Buffer.concat([iv, cipher.getAuthTag(), text]) };
}

/**
 * `key_missing` means that the key ring has no key of this id, `damaged` that the key or the name
 * does not match the sealed value.
 */
export type OpenedSecret = { ok: true; value: string } | { ok: false; why: 'key_missing' | 'damaged' };

export function openSecret(ring: KeyRing, { name, kid, sealed }: SealedSecret): OpenedSecret {
  const key = ring.byId(kid);
  if (!key) return { ok: false, why: 'key_missing' };
  try {
    const decipher = createDecipheriv('aes-256-gcm', deriveKey(key, 'secrets'), sealed.subarray(0, ivBytes));
    decipher.setAAD(Buffer.from(name, 'utf8'));
    decipher.setAuthTag(sealed.subarray(ivBytes, ivBytes + tagBytes));
    const text = Buffer.concat([decipher.update(sealed.subarray(ivBytes + tagBytes)), decipher.final()]);
    return { ok: true, value: text.toString('utf8') };
  } catch {
    return { ok: false, why: 'damaged' };
  }
}
