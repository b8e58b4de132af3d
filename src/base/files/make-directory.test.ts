import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeDirectory } from './make-directory.ts';

let directory: string;
let umask: number;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'slipway-make-'));
  umask = process.umask();
});
afterEach(() => {
  process.umask(umask);
  rmSync(directory, { recursive: true });
});

const modeOf = (path: string) => statSync(path).mode & 0o777;

test.for(['000', '027', '077'])('creates all parents with the mode, at umask %s', (mask) => {
  process.umask(Number.parseInt(mask, 8));
  makeDirectory(join(directory, 'a/b/c'), 0o711);
  process.umask(umask);
  for (const path of ['a', 'a/b', 'a/b/c']) expect(modeOf(join(directory, path))).toBe(0o711);
  expect(modeOf(directory)).toBe(0o700);
});

test('leaves the mode of an existing directory alone', () => {
  chmodSync(directory, 0o750);
  makeDirectory(directory, 0o711);
  expect(modeOf(directory)).toBe(0o750);
});
