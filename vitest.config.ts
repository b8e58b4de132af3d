/** The suites. One embedded PostgreSQL serves the whole run (test/support/run/global-setup.ts); each test file clones a database. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { FileOrder } from './test/support/run/file-order.ts';

/** The suites start hundreds of processes of the same few programs; what Node compiled for one it need not compile again. */
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compiled');

/** Bounds for a slow machine under load; a test that needs them is waiting for a condition, not sleeping. */
const shared = {
  pool: 'forks' as const,
  // A worker keeps what it has loaded from file to file (shared-worker.ts).
  isolate: false,
  setupFiles: ['test/support/run/shared-worker.ts'],
  testTimeout: 120_000,
  hookTimeout: 120_000,
  teardownTimeout: 30_000,
};

/** Many files wait more than they work. The database serves so many servers at once and not many more. */
const maxWorkers = Math.min(availableParallelism() + 3, 6);

/** These files give up the rights of root for good, so each has a process of its own. */
const unprivileged = '**/*.unprivileged.test.ts';

const suite = (name: string, include: string[]) => ({
  test: { ...shared, name, include, exclude: [unprivileged, '**/node_modules/**'], maxWorkers },
});
const unprivilegedFiles = {
  test: { ...shared, name: 'unprivileged', include: [unprivileged], isolate: true, maxWorkers },
};

const suites: Record<string, string[]> = {
  unit: [
    'src/**/*.test.ts',
    'console/src/**/*.test.{ts,tsx}',
    'scripts/**/*.test.ts',
    'test/*.test.ts',
    'test/support/**/*.test.ts',
  ],
  api: ['test/api/**/*.test.ts'],
  operations: ['test/operations/**/*.test.ts'],
  properties: ['test/properties/**/*.test.ts'],
  scenarios: ['test/scenarios/**/*.test.ts'],
  attacks: ['test/attacks/**/*.test.ts'],
  chaos: ['test/chaos/**/*.test.ts'],
  outsiders: ['test/outsiders/**/*.test.ts'],
  browser: ['test/browser/**/*.test.ts'],
};

/** A worker serves one project. Where nobody asks for one suite, all are one project, and their files can follow each other. */
const oneSuite = process.argv.some((word) => word.startsWith('--project'));

export default defineConfig({
  test: {
    ...shared,
    maxWorkers,
    sequence: { sequencer: FileOrder },
    globalSetup: ['test/support/run/global-setup.ts'],
    projects: [
      ...(oneSuite
        ? Object.entries(suites).map(([name, include]) => suite(name, include))
        : [suite('all', Object.values(suites).flat())]),
      unprivilegedFiles,
    ],
  },
});
