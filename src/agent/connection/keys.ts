/** Signs with the agent's Ed25519 key, and verifies signatures of the control plane. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import { canonicalJson } from '../../contract/canonical-json.ts';

/** Returns a private key as PKCS 8 DER in base64; the public key is derived from it. */
export function newKeyPair(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64');
}

const privateKey = (base64: string) =>
  createPrivateKey({ key: Buffer.from(base64, 'base64'), format: 'der', type: 'pkcs8' });

/** Returns the public key as SPKI DER in base64, as on the wire. */
export function publicKeyOf(private_key: string): string {
  return createPublicKey(privateKey(private_key)).export({ type: 'spki', format: 'der' }).toString('base64');
}

/** Signs the canonical JSON of a value; the signature is in base64. */
export function signatureOf(private_key: string, value: unknown): string {
  return sign(null, Buffer.from(canonicalJson(value)), privateKey(private_key)).toString('base64');
}

/** Throws for an invalid key; returns false for any invalid signature. */
export function isSignedBy(public_key: string, value: unknown, signature: string): boolean {
  const key = createPublicKey({ key: Buffer.from(public_key, 'base64'), format: 'der', type: 'spki' });
  if (key.asymmetricKeyType !== 'ed25519') throw new TypeError(`the key is ${key.asymmetricKeyType}, not ed25519`);
  return verify(null, Buffer.from(canonicalJson(value)), key, Buffer.from(signature, 'base64'));
}
