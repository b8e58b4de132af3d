/** Tests that a certificate is valid only with its exact bytes. */
import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Certificate } from '../certificate.ts';
import { certificateText, checkCertificate, signCertificate } from './certificate.ts';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');

const body: Omit<Certificate, 'signature'> = {
  type: 'slipway.certificate.1',
  installation: 'slipway-0123456789abcdef',
  allocation_id: 'alloc_01jexample',
  correlation_id: 'correlation-1',
  tenant: 'acme',
  pool: 'gpu',
  node_id: 'node_01jexample',
  requested_at: '2026-11-17T10:00:00.000Z',
  active_at: '2026-11-17T10:07:03.120Z',
  released_at: '2026-11-17T12:00:00.000Z',
  release: 'proven',
  instances: [
    {
      node_id: 'node_01jexample',
      node_instance_id: 'inst_01jexample',
      driver: 'docker',
      image: 'registry.example/größe:1 "quoted"',
      spec_sha256: 'ab'.repeat(32),
      from: '2026-11-17T10:00:00.000Z',
      until: '2026-11-17T12:00:00.000Z',
    },
  ],
  proofs: [
    {
      kind: 'absent',
      by: 'driver',
      at: '2026-11-17T11:59:59.000Z',
      node_instance_id: 'inst_01jexample',
      workflow_id: 'op_1',
      partition: 'provider',
      cursor: '918-17',
    },
  ],
  residue: [],
  chain: {
    partition: 'workflow',
    cursor: '920-21',
    row: 12,
    row_hash: 'cd'.repeat(32),
    checkpoint: 4,
    checkpoint_hash: 'ef'.repeat(32),
  },
  issued_at: '2026-11-17T12:00:02.000Z',
  kid: 'key_test',
};
const bytes = Buffer.from(certificateText(signCertificate(body, privateKey)));
const accepts = (file: Uint8Array) => checkCertificate(file, [publicKey]).valid;

test('accepts the issued certificate with its own public key, and refuses it with another key', () => {
  expect(checkCertificate(bytes, [publicKey])).toEqual({
    valid: true,
    certificate: { ...body, signature: expect.any(String) },
  });
  expect(checkCertificate(bytes, [generateKeyPairSync('ed25519').publicKey])).toEqual({
    valid: false,
    why: 'not_signed',
  });
});

test('refuses 1,000 random byte flips', () => {
  let accepted = 0;
  fc.assert(
    fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ flip;
      if (accepts(changed)) accepted++;
    }),
    { numRuns: 1_000 },
  );
  expect(accepted).toBe(0);
});

test('refuses every flipped bit at every position', () => {
  const accepted: string[] = [];
  for (let at = 0; at < bytes.length; at++)
    for (let bit = 0; bit < 8; bit++) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ (1 << bit);
      if (accepts(changed)) accepted.push(`byte ${at}, bit ${bit}`);
    }
  expect(accepted).toEqual([]);
});

test('refuses a missing, doubled or added byte at every position', () => {
  const accepted: string[] = [];
  for (let at = 0; at < bytes.length; at++) {
    if (accepts(Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]))) accepted.push(`without byte ${at}`);
    if (accepts(Buffer.concat([bytes.subarray(0, at + 1), bytes.subarray(at)])))
      accepted.push(`with byte ${at} doubled`);
  }
  for (let at = 0; at <= bytes.length; at++)
    for (const added of [' ', '\n', '\t', '0', '=', '\u0000', '\ufeff'])
      if (accepts(Buffer.concat([bytes.subarray(0, at), Buffer.from(added), bytes.subarray(at)])))
        accepted.push(`with ${JSON.stringify(added)} at ${at}`);
  expect(accepted).toEqual([]);
});

const text = bytes.toString();
const rewritten: [string, string][] = [
  ['fields in another order', `${JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).reverse()))}\n`],
  ['added white space', `${JSON.stringify(JSON.parse(text), null, 1)}\n`],
  ['an escape for a plain letter', text.replace('"acme"', '"\\u0061cme"')],
  ['a field that occurs twice', text.replace('{', '{"tenant":"acme",')],
  ['an unknown field', text.replace('{', '{"a":1,')],
  ['a number in another form', text.replace('"row":12', '"row":1.2e1')],
  ['base64 without padding', text.replace(/=+"/, '"')],
  [
    'base64url',
    text.replace(
      /"signature":"([^"]+)"/,
      (_, s: string) => `"signature":"${s.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}"`,
    ),
  ],
  ['no newline at the end', text.trimEnd()],
];

test.for(rewritten)('refuses %s', ([, changed]) => {
  expect(changed).not.toBe(text);
  expect(accepts(Buffer.from(changed))).toBe(false);
});

test('refuses a signature whose scalar is shifted by the group order', () => {
  const certificate = JSON.parse(text) as Certificate;
  const signature = Buffer.from(certificate.signature, 'base64');
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  const scalar = BigInt(`0x${Buffer.from(signature.subarray(32)).reverse().toString('hex')}`) + order;
  const shiftedScalar = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex').reverse();
  const changed = {
    ...certificate,
    signature: Buffer.concat([signature.subarray(0, 32), shiftedScalar]).toString('base64'),
  };
  expect(accepts(Buffer.from(certificateText(changed)))).toBe(false);
});
