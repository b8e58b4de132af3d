/**
 * Documented commands run with any Node from 20. Node 20 cannot load TypeScript, so a command must
 * find the pinned Node: `bin/run SCRIPT.ts`, an npm script or npx. These tests run each documented
 * program with an older Node first on the path.
 */
import { execFile, execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { readTree } from './support/tidy/source.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const files = readTree(root).filter(({ path }) => !path.endsWith('.sql'));
const pages = files.filter(({ path }) => path.endsWith('.md'));

/** Comments wrap a command over two lines. */
const nodeCommand = /\bnode(?:[\s*]+--?[\w-]+(?:=\S+)?)*[\s*]+[\w./<>…-]+\.ts\b/g;
const runCommand = /\bbin\/run[\s*]+((?:bench|console|packaging|scripts|test)\/[\w/.-]+\.ts)\b/g;

const pinned = Number(process.versions.node.split('.')[0]);
const majorOf = (node: string): number => {
  try {
    return Number(/^v(\d+)/.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))?.[1]);
  } catch {
    return Number.NaN;
  }
};
const nodesOnPath = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'node'));
const olderNode = nodesOnPath.find((node) => existsSync(node) && majorOf(node) < pinned);

/** A folder with only `node` in it, so that no other program of the machine changes. */
const folder = mkdtempSync(join(tmpdir(), 'slipway-older-node-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
if (olderNode) symlinkSync(olderNode, join(folder, 'node'));
else {
  // Refuses TypeScript as Node 20 does.
  const lines = ['#!/bin/sh', 'case " $* " in *.ts*) echo ERR_UNKNOWN_FILE_EXTENSION >&2; exit 1 ;; esac'];
  writeFileSync(join(folder, 'node'), [...lines, `exec "${process.execPath}" "$@"`, ''].join('\n'));
  chmodSync(join(folder, 'node'), 0o755);
}
const nodeName = olderNode ? `Node ${majorOf(olderNode)}` : 'a stand-in, because the machine has no older Node,';

const run = (program: string, args: string[]) =>
  promisify(execFile)(program, args, {
    cwd: root,
    env: { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}`, NODE_OPTIONS: '' },
  });

const isBenchmark = (text: string) => text.includes('readOptions(import.meta.url, {');
const isGenerator = (path: string) => /^scripts\/generate-[\w-]+\.ts$/.test(path) && !path.endsWith('.test.ts');
const documented = files.flatMap(({ text }) => [...text.matchAll(runCommand)].map(([, path = '']) => path));
const programs = [
  ...new Set([
    ...documented,
    ...files
      .filter(({ path, text }) => isGenerator(path) || (path.startsWith('bench/') && isBenchmark(text)))
      .map(({ path }) => path),
  ]),
].toSorted();

test('no file documents a TypeScript program as an argument of node', () => {
  const found = files
    // npm puts the pinned Node first on the path of its scripts.
    .filter(({ path }) => path !== 'package.json')
    .flatMap(({ path, text }) => [...text.matchAll(nodeCommand)].map(([command]) => `${path}: ${command}`));
  expect(found).toEqual([]);
});

test('finds such commands in text and in comments', () => {
  const name = 'node';
  const lines = [`${name} bench/beat.ts --quick`, `${name}\n * scripts/x-y.ts`, `${name} --watch src/main.ts`];
  for (const line of lines) expect(line.match(nodeCommand), line).not.toBeNull();
  for (const line of ['node scripts/setup.mjs', 'bin/run bench/beat.ts', 'node_x.ts'])
    expect(line).not.toMatch(nodeCommand);
});

test('every npm script and every npx program in the pages exists', () => {
  const named = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/\bnpm run ([a-z:]+)|\bnpm (start|test)\b/g)].map(([, name, short]) => ({
      path,
      name: name ?? short ?? '',
    })),
  );
  expect(new Set(named.map(({ name }) => name)).size).toBeGreaterThan(8);
  expect(named.filter(({ name }) => !Object.hasOwn(manifest.scripts, name))).toEqual([]);
  const npxNames = pages.flatMap(({ text }) => [...text.matchAll(/\bnpx ([a-z-]+)/g)].map(([, name = '']) => name));
  expect(npxNames.length).toBeGreaterThan(2);
  for (const name of npxNames) expect(existsSync(join(root, 'node_modules/.bin', name)), name).toBe(true);
});

describe(`with ${nodeName} first on the path`, () => {
  test('that Node cannot run a TypeScript program', async () => {
    await expect(run('node', ['bench/beat.ts', '--help'])).rejects.toThrow('ERR_UNKNOWN_FILE_EXTENSION');
  });

  test('finds the programs', () => {
    expect(new Set(documented).size).toBeGreaterThan(20);
    expect(programs.length).toBeGreaterThan(30);
  });

  test.each(programs)('bin/run %s', async (path) => {
    const { stdout, stderr } = await run('bin/run', [path, isGenerator(path) ? '--check' : '--help']);
    expect(stderr).toBe('');
    if (!isGenerator(path)) expect(stdout).toContain(`bin/run ${path}`);
  });

  test('npx and the npm scripts use the pinned Node', async () => {
    expect((await run('npx', ['node', '--version'])).stdout.trim()).toBe(process.version);
    // Without the scripts that prepare the clone, which the run of these tests has done.
    for (const name of ['demo', 'release']) {
      const { stdout } = await run('npm', ['run', '--ignore-scripts', name, '--', '--help']);
      expect(stdout, name).toContain(`Usage: npm run ${name}`);
    }
  });
});
