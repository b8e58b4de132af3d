/** Finds the folders with changed files. `npm run test:quick` runs their tests. */
import { execFileSync } from 'node:child_process';
import { posix } from 'node:path';

const git = (directory: string, ...args: string[]): string[] => {
  try {
    const output = execFileSync('git', args, { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return output.split('\n').filter(Boolean);
  } catch {
    return [];
  }
};

/**
 * Returns files with uncommitted changes, and files of the commits since the branch left main. On
 * main, takes the last commit.
 */
export function changedFiles(directory: string): string[] {
  const [head] = git(directory, 'rev-parse', 'HEAD');
  const bases = ['origin/main', 'main'].flatMap((name) => git(directory, 'merge-base', 'HEAD', name).slice(0, 1));
  const base = bases.find((commit) => commit !== head) ?? 'HEAD~1';
  return [
    ...git(directory, 'diff', '--name-only', base),
    ...git(directory, 'ls-files', '--others', '--exclude-standard'),
  ];
}

const hasUnitTests = /^(src|console\/src|scripts|test\/support)\//;

/** Leaves out a folder if its parent is listed, so that no test runs twice. */
export function foldersOf(files: readonly string[]): string[] {
  const folders = new Set(files.filter((path) => hasUnitTests.test(path)).map((path) => `${posix.dirname(path)}/`));
  return [...folders].filter((one) => ![...folders].some((other) => other !== one && one.startsWith(other))).sort();
}
