/** Ed25519: the agent's own key, with which it signs results, and the check of what the control plane signed. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import { canonicalJson } from '../../contract/canonical-json.ts';

/** A private key as PKCS 8 DER in base64; the public one is computed from it. */
export function newKeyPair(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64');
}

const privateKey = (base64: string) =>
  createPrivateKey({ key: Buffer.from(base64, 'base64'), format: 'der', type: 'pkcs8' });

/** SPKI DER in base64, as it goes over the wire. */
export function publicKeyOf(private_key: string): string {
  return createPublicKey(privateKey(private_key)).export({ type: 'spki', format: 'der' }).toString('base64');
}

export function signed(private_key: string, value: unknown): string {
  return sign(null, Buffer.from(canonicalJson(value)), privateKey(private_key)).toString('base64');
}

/** Throws for a key that is none; says no to a signature of any other shape. */
export function isSignedBy(public_key: string, value: unknown, signature: string): boolean {
  const key = createPublicKey({ key: Buffer.from(public_key, 'base64'), format: 'der', type: 'spki' });
  if (key.asymmetricKeyType !== 'ed25519') throw new TypeError(`the key is ${key.asymmetricKeyType}, not ed25519`);
  return verify(null, Buffer.from(canonicalJson(value)), key, Buffer.from(signature, 'base64'));
}
