/**
 * Signs the list of checksums with Ed25519, and so every file in it. OpenSSL checks the signature.
 * The private key stays outside the repository: the environment names its file.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const signatureFiles = { signature: 'SHA256SUMS.sig', publicKey: 'slipway-release.pub.pem' };

/** The key of `SLIPWAY_RELEASE_KEY`, a PEM file, or null without one. */
export function signingKey(environment: NodeJS.ProcessEnv = process.env): KeyObject | null {
  const path = environment.SLIPWAY_RELEASE_KEY;
  if (!path) return null;
  const key = createPrivateKey(readFileSync(path));
  if (key.asymmetricKeyType !== 'ed25519')
    throw new Error(`the key in ${path} is of type ${key.asymmetricKeyType}, and must be of type ed25519`);
  return key;
}

/** Writes the signature beside SHA256SUMS, with the public key for comparison. */
export function signChecksums(folder: string, key: KeyObject): void {
  writeFileSync(join(folder, signatureFiles.signature), sign(null, readFileSync(join(folder, 'SHA256SUMS')), key));
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'pem' });
  writeFileSync(join(folder, signatureFiles.publicKey), publicKey);
}
