/**
 * Runs before every test file. A worker runs many files and keeps the loaded modules, which saves
 * more than a second of CPU time for each file that starts a server. Two things must not leak into
 * the next file: mocked modules (`vi.mock`), and a server that a failed file did not stop.
 */
import { readFileSync } from 'node:fs';
import { afterAll, expect, vi } from 'vitest';
import { stopLeftovers } from './left-running.ts';

/** Kept on globalThis, because this module is loaded again for each file. */
const worker = globalThis as { slipway_modules_mocked?: boolean };

const { testPath } = expect.getState();
const mocksModules = testPath !== undefined && readFileSync(testPath, 'utf8').includes('vi.mock(');
// `vi.mock` does not affect modules that are already loaded, and modules loaded with a mock must
// not be reused.
if (mocksModules || worker.slipway_modules_mocked) vi.resetModules();
worker.slipway_modules_mocked = mocksModules;

// The hook registered first runs last, after the file's own clean-up.
afterAll(stopLeftovers);
