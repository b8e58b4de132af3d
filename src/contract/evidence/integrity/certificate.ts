/** A release certificate: a small signed file about one allocation. Its exact bytes count; any other byte makes it invalid. */
import { type KeyObject, sign, verify } from 'node:crypto';
import { canonicalJson } from '../../canonical-json.ts';
import type { Certificate } from '../certificate.ts';

/** Every field, so that nothing unknown is carried along. */
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

/** Separates certificates from everything else that the same key signs. */
const signed = (body: Omit<Certificate, 'signature'>): Buffer =>
  Buffer.from(`slipway certificate\n${canonicalJson(body)}`);

export const signCertificate = (body: Omit<Certificate, 'signature'>, key: KeyObject): Certificate => ({
  ...body,
  signature: sign(null, signed(body), key).toString('base64'),
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

/** Strict base64 of 64 bytes: one text for one signature. */
function signatureOf(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === signatureBytes && bytes.toString('base64') === text ? bytes : undefined;
}

export function checkCertificate(bytes: Uint8Array, keys: readonly KeyObject[]): CertificateCheck {
  const value = parse(bytes);
  if (!isCertificate(value)) return { valid: false, why: 'not_a_certificate' };
  // White space, escapes, doubled keys and other orders all parse, and none of them gives these bytes again.
  if (!Buffer.from(certificateText(value)).equals(bytes)) return { valid: false, why: 'not_canonical' };
  const { signature, ...body } = value;
  const given = signatureOf(signature);
  const isSigned = given !== undefined && keys.some((key) => verify(null, signed(body), key, given));
  return isSigned ? { valid: true, certificate: value } : { valid: false, why: 'not_signed' };
}
