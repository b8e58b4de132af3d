/**
 * The files of one run of the command. The shim writes them, and an agent of any version reads
 * them, so fields may be added but not changed.
 */
import { join } from 'node:path';
import { readJsonFile } from '../../state/durable-file.ts';
import { isFields, isTextRecord, isTexts, numberOf, textOf } from '../../state/shape.ts';
import type { ProcessId } from '../process-table.ts';

export const startedFile = (directory: string) => join(directory, 'started.json');
export const endedFile = (directory: string) => join(directory, 'ended.json');
export const outputDirectory = (directory: string) => join(directory, 'output');
export const shimLogFile = (directory: string) => join(directory, 'shim.log');

/** Sent to the standard input of the shim, because it holds secrets. */
export interface CommandSpec {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
  /** Variables that are secret although their names do not show it. */
  secret_env: string[];
}

export function commandSpecFrom(value: unknown): CommandSpec | null {
  if (!isFields(value)) return null;
  const { argv, cwd, env, secret_env } = value;
  if (!isTexts(argv) || typeof cwd !== 'string' || !isTextRecord(env) || !isTexts(secret_env)) return null;
  return { argv, cwd, env, secret_env };
}

/** How a command ended. All fields are null if the end was not seen. */
export interface CommandEnd {
  exit_code: number | null;
  signal: string | null;
  /** Why the command could not be started. */
  start_error: string | null;
}

export const unseenEnd: CommandEnd = { exit_code: null, signal: null, start_error: null };

/** The process of the command, which leads its group. */
export function readStarted(directory: string): ProcessId | null {
  const value = readJsonFile(startedFile(directory));
  return isFields(value) && typeof value.pid === 'number' && typeof value.start === 'string'
    ? { pid: value.pid, start: value.start }
    : null;
}

export function readEnded(directory: string): CommandEnd | null {
  const value = readJsonFile(endedFile(directory));
  if (!isFields(value)) return null;
  return {
    exit_code: numberOf(value.exit_code),
    signal: textOf(value.signal),
    start_error: textOf(value.start_error),
  };
}

export function describeEnd({ exit_code, signal, start_error }: CommandEnd): string {
  if (start_error !== null) return `could not be started: ${start_error}`;
  if (exit_code !== null) return `exited with code ${exit_code}`;
  return signal === null ? 'ended with an unknown exit status' : `was ended by ${signal}`;
}
