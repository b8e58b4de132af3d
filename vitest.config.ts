/**
 * Defines the test suites. One embedded PostgreSQL serves the whole run
 * (test/support/run/global-setup.ts); each test file clones a database.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { FileOrder } from './test/support/run/file-order.ts';

/** The suites start the same few programs hundreds of times; the cache saves compile time. */
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compiled');

/** The timeouts allow for a slow machine under load. Tests wait for conditions and never sleep. */
const shared = {
  pool: 'forks' as const,
  // A worker keeps loaded modules from one file to the next (shared-worker.ts).
  isolate: false,
  setupFiles: ['test/support/run/shared-worker.ts'],
  testTimeout: 120_000,
  hookTimeout: 120_000,
  teardownTimeout: 30_000,
};

/** More workers than cores, because most tests wait. The database limits the number of servers. */
const maxWorkers = Math.min(availableParallelism() + 3, 6);

/** These files give up root for good, so each gets its own process. */
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
  packages: ['test/packages/**/*.test.ts'],
  outsiders: ['test/outsiders/**/*.test.ts'],
  browser: ['test/browser/**/*.test.ts'],
};

/**
 * A worker serves only one project. A run without `--project` puts all suites into one project, so
 * that a worker can take any file next.
 */
const isProjectChosen = process.argv.some((word) => word.startsWith('--project'));

export default defineConfig({
  test: {
    ...shared,
    maxWorkers,
    sequence: { sequencer: FileOrder },
    globalSetup: ['test/support/run/global-setup.ts'],
    projects: [
      ...(isProjectChosen
        ? Object.entries(suites).map(([name, include]) => suite(name, include))
        : [suite('all', Object.values(suites).flat())]),
      unprivilegedFiles,
    ],
  },
});
