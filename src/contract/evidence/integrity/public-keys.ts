/**
 * Reads public keys from PEM blocks, or from JSON as printed by `slipway keys public --json` and
 * `GET /v1/keys`.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';

const isEd25519 = (key: KeyObject) => key.asymmetricKeyType === 'ed25519';

const fromBase64 = (text: string): KeyObject =>
  createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' });

export function fromPem(text: string): KeyObject[] {
  const blocks = text.match(/-----BEGIN PUBLIC KEY-----[\s\S]+?-----END PUBLIC KEY-----/g) ?? [];
  return blocks.map((block) => createPublicKey(block));
}

export function fromKeyList(keys: unknown): KeyObject[] {
  if (!Array.isArray(keys)) return [];
  return keys.map((key: unknown) => {
    const text = typeof key === 'object' && key !== null && 'public_key' in key ? key.public_key : undefined;
    if (typeof text !== 'string') throw new Error('a key has no public_key');
    return fromBase64(text);
  });
}

/** Throws if the text has no public key, or has one that is not Ed25519. */
export function readPublicKeys(text: string): KeyObject[] {
  const keys = text.trimStart().startsWith('{')
    ? fromKeyList((JSON.parse(text) as { keys?: unknown }).keys)
    : fromPem(text);
  if (keys.length === 0) throw new Error('no public key found');
  if (!keys.every(isEd25519)) throw new Error('a key is not Ed25519');
  return keys;
}
