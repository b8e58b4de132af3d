/** `slipway keys` works on a file of this host; no server is needed. */
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { openKeyRing } from '../base/key-ring.ts';
import { runCli } from './testing/run-cli.ts';

const nowhere = 'http://127.0.0.1:9';
let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'slipway-keys-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));
const keys = (...args: string[]) => runCli(['keys', ...args], { server: nowhere });

test('rotates the key file of a data directory, and lists ids but never keys', async () => {
  const path = join(directory, 'keys.json');
  const first = openKeyRing(path, systemClock).current;
  const rotated = await keys('rotate', '--data-dir', directory);
  expect(rotated.code).toBe(0);
  const { items } = JSON.parse((await keys('list', '--data-dir', directory, '--json')).stdout);
  expect(items.map(({ kid }: { kid: string }) => kid)).toEqual([expect.stringMatching(/^key_/), first.kid]);
  const shown = (await keys('--key-file', path)).stdout;
  expect(shown).toContain(first.kid);
  expect(shown).not.toContain(first.secret.toString('base64'));
});

test('explains a missing file, and a file that others can read', async () => {
  const missing = await keys('rotate', '--data-dir', directory);
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain('--key-file');
  const path = join(directory, 'keys.json');
  openKeyRing(path, systemClock);
  chmodSync(path, 0o644);
  const before = readFileSync(path, 'utf8');
  const open = await keys('rotate', '--key-file', path);
  expect(open.code).toBe(1);
  expect(open.stderr).toContain('chmod 600');
  expect(readFileSync(path, 'utf8')).toBe(before);
});
