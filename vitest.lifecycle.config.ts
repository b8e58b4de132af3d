/** The pure rules alone: no database, no servers. Mutation testing runs these thousands of times. */
import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { isolate: false, include: ['src/lifecycle/**/*.test.ts'] } });
