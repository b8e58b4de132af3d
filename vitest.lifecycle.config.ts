/** The pure rules alone: no database, no servers. Mutation testing runs these thousands of times. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    isolate: false,
    include: ['src/lifecycle/**/*.test.ts'],
    // The instrumented code is several times slower, and what it is measured by is whether it ends, not when.
    testTimeout: 60_000,
  },
});
