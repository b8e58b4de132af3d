import { sign, verify } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { deriveKey, openKeyRing, rotateKeyRing, signingKeyOf } from './key-ring.ts';

let directory = '';
let path = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'slipway-keys-'));
  path = join(directory, 'deep', 'keys.json');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('creates a private file on the first start and reads the same key on the next', () => {
  const first = openKeyRing(path, systemClock);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const second = openKeyRing(path, systemClock);
  expect(second.current).toEqual(first.current);
  expect(second.all).toHaveLength(1);
});

test('refuses a file that others can read, and says how to fix it', () => {
  openKeyRing(path, systemClock);
  chmodSync(path, 0o640);
  expect(() => openKeyRing(path, systemClock)).toThrow(`chmod 600 ${path}`);
  expect(() => rotateKeyRing(path, systemClock)).toThrow('chmod 600');
});

test.for(['', '{}', '{"keys": []}', '{"keys": [{"kid": "a", "created_at": "x", "secret": "c2hvcnQ="}]}'])(
  'refuses the damaged file %s and does not replace it',
  (text) => {
    openKeyRing(path, systemClock);
    writeFileSync(path, text);
    expect(() => openKeyRing(path, systemClock)).toThrow('Restore it from your backup');
    expect(readFileSync(path, 'utf8')).toBe(text);
  },
);

test('uses the new key after a rotation without a restart, and keeps the previous key', () => {
  const ring = openKeyRing(path, systemClock);
  const former = ring.current;
  const kid = rotateKeyRing(path, systemClock);
  expect(ring.current.kid).toBe(kid);
  expect(ring.byId(former.kid)).toEqual(former);
  expect(ring.all.map((key) => key.kid)).toEqual([kid, former.kid]);
});

test('keeps the loaded keys when the file is damaged or removed later', () => {
  const ring = openKeyRing(path, systemClock);
  const { kid } = ring.current;
  writeFileSync(path, 'broken');
  expect(ring.current.kid).toBe(kid);
  rmSync(path);
  expect(ring.current.kid).toBe(kid);
});

test('derives a separate key per purpose, and verifies signatures only with the key of their purpose', () => {
  const { current } = openKeyRing(path, systemClock);
  expect(deriveKey(current, 'secrets')).not.toEqual(deriveKey(current, 'evidence'));
  const evidence = signingKeyOf(current, 'evidence');
  const signature = sign(null, Buffer.from('checkpoint'), evidence.private_key);
  const publicKey = signingKeyOf(current, 'evidence').public_key;
  expect(verify(null, Buffer.from('checkpoint'), publicKey, signature)).toBe(true);
  expect(verify(null, Buffer.from('checkpoint'), signingKeyOf(current, 'secrets').public_key, signature)).toBe(false);
});
