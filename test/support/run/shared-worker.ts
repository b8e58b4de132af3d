/**
 * Runs in front of every test file. A worker runs many files one after another and keeps the modules it has loaded, which saves
 * more than a second of processor time for each file that starts a server. Two things must not pass from one file to the next:
 * modules that a file replaced (`vi.mock`), and a server that a file which failed did not stop.
 */
import { readFileSync } from 'node:fs';
import { afterAll, expect, vi } from 'vitest';
import { stopLeftovers } from './left-running.ts';

/** Of the process, since this module too is loaded anew for each file. */
const worker = globalThis as { slipway_modules_replaced?: boolean };

const { testPath } = expect.getState();
const replaces = testPath !== undefined && readFileSync(testPath, 'utf8').includes('vi.mock(');
// A module that is loaded already would not be replaced any more; and what was loaded with a replacement suits nobody else.
if (replaces || worker.slipway_modules_replaced) vi.resetModules();
worker.slipway_modules_replaced = replaces;

// The first hook that is registered runs last, when the file has stopped what it could.
afterAll(stopLeftovers);
