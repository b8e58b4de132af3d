/**
 * A release certificate: a small signed file about one allocation. It is valid only with its
 * exact bytes.
 */
import { type KeyObject, sign, verify } from 'node:crypto';
import { canonicalJson } from '../../canonical-json.ts';
import type { Certificate } from '../certificate.ts';

/** All fields of a certificate. A file with other fields is refused. */
const fields: readonly (keyof Certificate)[] = [
  'active_at',
  'allocation_id',
  'chain',
  'correlation_id',
  'installation',
  'instances',
  'issued_at',
  'kid',
  'node_id',
  'pool',
  'proofs',
  'release',
  'released_at',
  'requested_at',
  'residue',
  'signature',
  'tenant',
  'type',
];

const signatureBytes = 64;

/** The prefix distinguishes certificates from other texts that are signed with the same key. */
const signedText = (body: Omit<Certificate, 'signature'>): Buffer =>
  Buffer.from(`slipway certificate\n${canonicalJson(body)}`);

export const signCertificate = (body: Omit<Certificate, 'signature'>, key: KeyObject): Certificate => ({
  ...body,
  signature: sign(null, signedText(body), key).toString('base64'),
});

/** The file: canonical JSON and one newline. */
export const certificateText = (certificate: Certificate): string => `${canonicalJson(certificate)}\n`;

export type CertificateCheck =
  | { valid: true; certificate: Certificate }
  | { valid: false; why: 'not_a_certificate' | 'not_canonical' | 'not_signed' };

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

function isCertificate(value: unknown): value is Certificate {
  if (typeof value !== 'object' || value === null) return false;
  const names = Object.keys(value).sort();
  return (
    JSON.stringify(names) === JSON.stringify(fields) &&
    (value as Certificate).type === 'slipway.certificate.1' &&
    typeof (value as Certificate).signature === 'string'
  );
}

/** Strict base64 of 64 bytes, so that a signature has only one text. */
function signatureOf(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === signatureBytes && bytes.toString('base64') === text ? bytes : undefined;
}

export function checkCertificate(bytes: Uint8Array, keys: readonly KeyObject[]): CertificateCheck {
  const value = parse(bytes);
  if (!isCertificate(value)) return { valid: false, why: 'not_a_certificate' };
  // A file with other white space, escapes, key order or duplicate keys parses, but is refused.
  if (!Buffer.from(certificateText(value)).equals(bytes)) return { valid: false, why: 'not_canonical' };
  const { signature, ...body } = value;
  const decoded = signatureOf(signature);
  const isSigned = decoded !== undefined && keys.some((key) => verify(null, signedText(body), key, decoded));
  return isSigned ? { valid: true, certificate: value } : { valid: false, why: 'not_signed' };
}
