/** The suites. One embedded PostgreSQL serves the whole run (test/support/global-setup.ts); each test file clones a database. */
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** The suites start hundreds of processes of the same few programs; what Node compiled for one it need not compile again. */
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compiled');

/** Bounds for a slow machine under load; a test that needs them is waiting for a condition, not sleeping. */
const shared = {
  pool: 'forks' as const,
  testTimeout: 120_000,
  hookTimeout: 120_000,
  teardownTimeout: 30_000,
};

/** Suites run one after another; inside one, as many files at once as it can bear. */
const suite = (name: string, order: number, maxWorkers: number, include: string[]) => ({
  test: { ...shared, name, include, maxWorkers, sequence: { groupOrder: order } },
});

export default defineConfig({
  test: {
    ...shared,
    maxWorkers: 2,
    globalSetup: ['test/support/global-setup.ts'],
    projects: [
      suite('unit', 0, 2, [
        'src/**/*.test.ts',
        'console/src/**/*.test.{ts,tsx}',
        'scripts/**/*.test.ts',
        'test/*.test.ts',
        'test/support/**/*.test.ts',
      ]),
      suite('api', 1, 2, ['test/api/**/*.test.ts']),
      // Minutes long, so asked for by name: SLIPWAY_PROPERTIES=1 npx vitest run --project properties
      ...(process.env.SLIPWAY_PROPERTIES ? [suite('properties', 2, 1, ['test/properties/**/*.test.ts'])] : []),
      suite('scenarios', 3, 3, ['test/scenarios/**/*.test.ts']),
      suite('chaos', 4, 1, ['test/chaos/**/*.test.ts']),
      suite('browser', 5, 1, ['test/browser/**/*.test.ts']),
    ],
  },
});
