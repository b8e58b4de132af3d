/**
 * `npm test`: builds, type check, lint and format check, then every suite. All stages run even if
 * one fails, so that one run shows every failure. A run passes only if nothing failed, nothing was
 * skipped and every required suite ran tests. The last line counts the tests, and says `0 failed`
 * exactly when the exit status is 0.
 *
 * `npm run test:quick` (`--quick`) is the inner loop: the checks, the house rules, and the unit
 * tests of changed folders.
 */
import { existsSync } from 'node:fs';
import { changedFiles, foldersOf } from './test/changed-folders.ts';
import { root, type Stage, StageRun } from './test/stage.ts';
import { readOutcome, requiredSuites } from './test/suites.ts';

const tool = (path: string) => `${root}/node_modules/${path}`;
const resultsFile = `${root}/reports/vitest.json`;

/**
 * Does nothing if set-up has built everything. Otherwise repeats the failed build, so that the run
 * fails.
 */
const builds: Stage = { name: 'builds', args: [`${root}/scripts/setup.mjs`] };

const staticStages: Stage[] = [
  { name: 'type check', args: [tool('typescript/bin/tsc'), '--noEmit', '-p', 'tsconfig.json'] },
  {
    name: 'type check of the console',
    args: [tool('typescript/bin/tsc'), '--noEmit', '-p', 'console/tsconfig.json'],
    applies: () => existsSync(`${root}/console/tsconfig.json`),
  },
  { name: 'lint and format', args: [tool('@biomejs/biome/bin/biome'), 'check', '--error-on-warnings'] },
];

/** Builds the bundle in every run, so that it is always current. */
const serverInOneFile: Stage = { name: 'server in one file', args: [`${root}/scripts/test/server-in-one-file.ts`] };

const quick = process.argv.includes('--quick');
const folders = quick ? foldersOf(changedFiles(root)) : [];
const selectedPaths = quick ? ['test/tidy.test.ts', ...folders] : [];

const suites: Stage = {
  environment: quick ? {} : { SLIPWAY_TEST_SERVER: `${root}/dist/test-server.mjs` },
  name: quick ? 'tests of changed folders' : 'tests',
  args: [
    ...[tool('vitest/vitest.mjs'), 'run', `--reporter=${root}/scripts/test/progress-reporter.ts`],
    ...['--reporter=json', `--outputFile.json=${resultsFile}`],
    ...(quick ? ['--project', 'unit', '--project', 'unprivileged', ...selectedPaths] : []),
  ],
};

const run = new StageRun();
const staticOnly = process.argv.includes('--static-only');
const earlierStages = staticOnly || quick ? staticStages : [builds, serverInOneFile, ...staticStages];
for (const stage of earlierStages) await run.stage(stage);

let passed = 0;
let failed = 0;
const failures: string[] = [];
const complaints: string[] = [];
if (!staticOnly) {
  const startedAt = Date.now();
  await run.stage(suites);
  const outcome = await readOutcome(resultsFile, startedAt, quick ? [] : requiredSuites(root), root);
  passed = outcome.passed;
  failed = outcome.failed;
  failures.push(...outcome.failures);
  complaints.push(...outcome.complaints);
}

// A failed stage without a failed test still counts as a failure.
const failedStages = run.failures().filter((name) => name !== suites.name || failed + complaints.length === 0).length;
const total = failed + complaints.length + failedStages;

console.log(`\n${run.summary()}`);
if (quick) console.log(`  unit tests of ${folders.join(', ') || 'no folder'}; npm test runs everything`);
// Repeats the failures at the end, for readers who look only there.
for (const complaint of [...failures, ...complaints]) console.log(`  FAIL  ${complaint}`);
if (!staticOnly) console.log(`\nTests: ${passed} passed, ${total} failed`);
process.exitCode = total === 0 ? 0 : 1;
