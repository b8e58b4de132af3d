import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { changedFiles, foldersOf } from './changed-folders.ts';

let directory: string;
const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { cwd: directory });
const write = (path: string) => {
  mkdirSync(join(directory, path, '..'), { recursive: true });
  writeFileSync(join(directory, path), path);
};
const commit = (path: string) => {
  write(path);
  git('add', '-A');
  git('commit', '-qm', path);
};

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'changed-'));
  git('init', '-q', '-b', 'main');
  commit('src/a/one.ts');
  commit('src/b/two.ts');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('on main, returns the files of the last commit and uncommitted files', () => {
  write('src/c/three.ts');
  expect(changedFiles(directory).sort()).toEqual(['src/b/two.ts', 'src/c/three.ts']);
});

test('on a branch, returns the files of every commit since main', () => {
  git('switch', '-qc', 'topic');
  commit('src/c/three.ts');
  commit('src/d/four.ts');
  expect(changedFiles(directory).sort()).toEqual(['src/c/three.ts', 'src/d/four.ts']);
});

test('returns nothing outside a Git repository', () => {
  rmSync(join(directory, '.git'), { recursive: true });
  expect(changedFiles(directory)).toEqual([]);
});

test('returns the folders that have unit tests, but no subfolder of another folder', () => {
  const files = ['src/a/x/one.ts', 'src/a/two.ts', 'src/b/three.ts', 'docs/page.md', 'test/api/four.test.ts'];
  expect(foldersOf(files)).toEqual(['src/a/', 'src/b/']);
});
