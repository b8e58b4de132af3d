/**
 * Runs only the tests of the pure rules, without a database or servers. Mutation testing runs them
 * thousands of times.
 */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    isolate: false,
    include: ['src/lifecycle/**/*.test.ts'],
    // Instrumented code is several times slower. Only endless loops should time out.
    testTimeout: 60_000,
  },
});
