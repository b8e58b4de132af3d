/**
 * `npm test`: builds, type check, lint and format check, then every suite. All stages run even when one fails, so that one run
 * shows everything. A run passes only when nothing failed, nothing was skipped and every required suite ran something;
 * its last line counts the tests, and says `0 failed` exactly when the exit status is 0.
 *
 * `npm run test:all` (`--all`) also tells what `npm test` tells in turn (test/support/turn.ts).
 */
import { existsSync } from 'node:fs';
import { commits } from './test/commits.ts';
import { root, type Stage, StageRun } from './test/stage.ts';
import { readOutcome, requiredSuites } from './test/suites.ts';

const tool = (path: string) => `${root}/node_modules/${path}`;
const resultsFile = `${root}/reports/vitest.json`;

/** Does nothing when the run's own preparation has built everything; repeats, as a failure that counts, what did not build. */
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

/** So built in every run: nobody then asks whether it is the present one. */
const serverInOneFile: Stage = { name: 'server in one file', args: [`${root}/scripts/test/server-in-one-file.ts`] };

const turn = process.argv.includes('--all') ? undefined : commits(root);

const suites: Stage = {
  environment: {
    SLIPWAY_TEST_SERVER: `${root}/dist/test-server.mjs`,
    ...(turn !== undefined && { SLIPWAY_TEST_TURN: String(turn) }),
  },
  name: 'tests',
  args: [tool('vitest/vitest.mjs'), 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${resultsFile}`],
};

const run = new StageRun();
const staticOnly = process.argv.includes('--static-only');
for (const stage of staticOnly ? staticStages : [builds, serverInOneFile, ...staticStages]) await run.stage(stage);

let passed = 0;
let failed = 0;
const failures: string[] = [];
const complaints: string[] = [];
if (!staticOnly) {
  const startedAt = Date.now();
  await run.stage(suites);
  const outcome = await readOutcome(resultsFile, startedAt, requiredSuites(root), root);
  passed = outcome.passed;
  failed = outcome.failed;
  failures.push(...outcome.failures);
  complaints.push(...outcome.complaints);
}

// A failed stage that no failed test accounts for still makes the count say so.
const unexplained = run.failures().filter((name) => name !== suites.name || failed + complaints.length === 0).length;
const total = failed + complaints.length + unexplained;

console.log(`\n${run.summary()}`);
if (!staticOnly && turn !== undefined)
  console.log('  of counter-tests and killed steps one fifth, another with each commit; npm run test:all tells all');
// Named once more at the very end, where whoever reads only that finds them.
for (const complaint of [...failures, ...complaints]) console.log(`  FAIL  ${complaint}`);
if (!staticOnly) console.log(`\nTests: ${passed} passed, ${total} failed`);
process.exitCode = total === 0 ? 0 : 1;
