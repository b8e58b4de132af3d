/** The folders whose tests `npm run test:quick` runs: those with files that changed. */
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

/** Uncommitted changes, and commits since the branch left main; on main itself, the last commit. */
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

/** Parents come without their children, so that no test is named twice. */
export function foldersOf(files: readonly string[]): string[] {
  const folders = new Set(files.filter((path) => hasUnitTests.test(path)).map((path) => `${posix.dirname(path)}/`));
  return [...folders].filter((one) => ![...folders].some((other) => other !== one && one.startsWith(other))).sort();
}
