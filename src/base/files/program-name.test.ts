import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { packageRoot } from './package-root.ts';
import { programName } from './program-name.ts';

test('names the command so that it runs from the current folder', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-test-name-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const program = join(packageRoot, 'bin/slipway');
  expect(programName({}, packageRoot)).toBe('./bin/slipway');
  expect(programName({ PATH: `:${directory}` }, join(packageRoot, 'bin'))).toBe('./slipway');
  expect(programName({ PATH: directory }, directory)).toBe(program);
  await writeFile(join(directory, 'slipway'), '');
  expect(programName({ PATH: `:${directory}` }, packageRoot)).toBe('slipway');
});
