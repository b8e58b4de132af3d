import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createTar, createTarGz, firstFile } from './tar.ts';

test('writes names, bytes and times that tar reads, for files of any size', () => {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-tar-'));
  const bodies = {
    'a/empty': '',
    'a/short.json': '{"ö":1}\n',
    'a/b/block': 'x'.repeat(512),
    'a/long': 'y'.repeat(1300),
  };
  const entries = Object.entries(bodies).map(([name, body]) => ({ name, body: Buffer.from(body) }));
  writeFileSync(join(dir, 'a.tar.gz'), createTarGz(entries, new Date('2030-01-02T03:04:05Z')));
  const tar = (...args: string[]) =>
    execFileSync('tar', args, { cwd: dir, env: { ...process.env, TZ: 'UTC' } }).toString();
  const listing = tar('-tzvf', 'a.tar.gz');
  expect(listing.trim().split('\n')).toHaveLength(entries.length);
  expect(listing).toMatch(/^-rw-------.*2030-01-02 03:04.*a\/short\.json$/m);
  tar('-xzf', 'a.tar.gz');
  for (const [name, body] of Object.entries(bodies)) expect(readFileSync(join(dir, name), 'utf8')).toBe(body);
  rmSync(dir, { recursive: true });
});

test('refuses a name that is too long', () => {
  expect(() => createTarGz([{ name: 'a'.repeat(101), body: Buffer.alloc(0) }], new Date(0))).toThrow('too long');
});

test('keeps directories, modes and owners', () => {
  const owner = { uid: 1000, gid: 1001 };
  const entries = [
    { name: 'a/', body: Buffer.alloc(0), directory: true, mode: 0o700, owner },
    { name: 'a/b', body: Buffer.from('c'), mode: 0o640, owner },
  ];
  const listing = execFileSync('tar', ['-tvf', '-', '--numeric-owner'], { input: createTar(entries, new Date(0)) });
  expect(listing.toString()).toMatch(/^drwx------ 1000\/1001 .*a\/\n-rw-r----- 1000\/1001 .*a\/b\n$/);
});

test('finds the first file after directories and extended headers', () => {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-tar-'));
  const name = 'n'.repeat(150);
  writeFileSync(join(dir, name), 'x'.repeat(700));
  const archive = execFileSync('tar', ['--format=pax', '-C', dir, '-cf', '-', '.']);
  rmSync(dir, { recursive: true });
  expect(firstFile(archive)?.toString()).toBe('x'.repeat(700));
  expect(firstFile(createTar([], new Date(0)))).toBeNull();
});
