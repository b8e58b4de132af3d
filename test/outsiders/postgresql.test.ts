/** Runs the store's tests against the other supported versions of PostgreSQL. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { startExternal } from './postgresql/external.ts';
import { share, withOutsider } from './support/outsider.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/**
 * `npm test` runs only the oldest version, with the tests of migrations, transitions and evidence.
 */
const versions = share([14] as const, [14, 15, 16, 17] as const);
const files = share(
  ['src/store/migrate.test.ts', 'src/store/transitions/node-transition.test.ts', 'src/store/evidence/evidence.test.ts'],
  ['src/store'],
);
/** These tests start or stop the embedded server itself, so an external one cannot replace it. */
const embeddedTests = 'src/store/pg/embedded/**';

for (const version of versions)
  withOutsider(`postgresql-${version}`, ({ place }) => {
    it('passes the tests of the store', { timeout: share(300_000, 1_800_000) }, async () => {
      const external = await startExternal(place);
      try {
        const args = ['node_modules/vitest/vitest.mjs', 'run', ...files, '--exclude', embeddedTests];
        const run = spawn(process.execPath, args, {
          cwd: root,
          env: { ...process.env, SLIPWAY_TEST_POSTGRES_URL: external.url },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        let output = '';
        for (const stream of [run.stdout, run.stderr]) stream.on('data', (chunk) => (output += chunk));
        const code = await new Promise((resolve) => run.once('exit', resolve));
        console.log(
          `PostgreSQL ${version}: ${/Tests .*(?:passed|failed).*/.exec(output)?.[0] ?? 'no summary of the tests'}`,
        );
        expect(code, output.slice(-6_000)).toBe(0);
      } finally {
        await external.stop();
      }
    });
  });
