/** `slipway keys` works on a local file without a server, except for `rotate-tasks`. */
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { openKeyRing } from '../../../base/credentials/key-ring.ts';
import { runCli } from '../../testing/run-cli.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';

const nowhere = 'http://127.0.0.1:9';
let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'slipway-keys-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));
const keys = (...args: string[]) => runCli(['keys', ...args], { server: nowhere });

test('rotates the key file of a data directory and lists ids, never keys', async () => {
  const path = join(directory, 'keys.json');
  const first = openKeyRing(path, systemClock).current;
  const rotated = await keys('rotate', '--data-dir', directory);
  expect(rotated.code).toBe(0);
  const { items } = JSON.parse((await keys('list', '--data-dir', directory, '--json')).stdout);
  expect(items.map(({ kid }: { kid: string }) => kid)).toEqual([expect.stringMatching(/^key_/), first.kid]);
  const listing = (await keys('--key-file', path)).stdout;
  expect(listing).toContain(first.kid);
  expect(listing).not.toContain(first.secret.toString('base64'));
});

test('reads the path of the key file from the same variable as the server', async () => {
  const path = join(directory, 'elsewhere.json');
  const { kid } = openKeyRing(path, systemClock).current;
  const { stdout } = await runCli(['keys'], { server: nowhere, env: { SLIPWAY_KEY_FILE: path } });
  expect(stdout).toContain(kid);
});

test('refuses a missing file, and a file that others can read', async () => {
  const missing = await keys('rotate', '--data-dir', directory);
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain('--key-file');
  const path = join(directory, 'keys.json');
  openKeyRing(path, systemClock);
  chmodSync(path, 0o644);
  const before = readFileSync(path, 'utf8');
  const refused = await keys('rotate', '--key-file', path);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('chmod 600');
  expect(readFileSync(path, 'utf8')).toBe(before);
});

test('prints when the new task key signs and how long agents accept the former one', async () => {
  const server = await new ScriptedServer().start();
  onTestFinished(() => server.stop());
  const body = {
    kid: 'key_new',
    signs_from: '2030-01-02T00:00:00.000Z',
    former_kid: 'key_old',
    former_accepted_until: '2030-01-03T00:00:00.000Z',
  };
  server.on('task-key-rotate', () => ({ status: 201, body }));
  const { code, stdout } = await runCli(['keys', 'rotate-tasks'], { server: server.url });
  expect(code).toBe(0);
  for (const value of Object.values(body)) expect(stdout).toContain(value);
});
