/** Runs `slipway backup`, `restore` and `move-database` as an operator does. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type SpawnedProgram, spawnProgram } from './server.ts';
import { until } from './until.ts';

const program = join(import.meta.dirname, '../../src/backup/main.ts');

export interface BackupRun {
  code: number | null;
  /** The JSON that the program printed; undefined if it failed. */
  result: Record<string, unknown> | undefined;
  output: string;
  /** The largest resident memory of the program. */
  peak_bytes: number;
}

/** Emptied, so that settings of the test run do not reach the program. */
const settings = [
  'SLIPWAY_DATABASE_URL',
  'SLIPWAY_OWNER_DATABASE_URL',
  'SLIPWAY_TARGET_DATABASE_URL',
  'SLIPWAY_DATA_DIR',
  'SLIPWAY_KEY_FILE',
  'SLIPWAY_S3_ENDPOINT',
  'AWS_ENDPOINT_URL',
  'AWS_ENDPOINT_URL_S3',
];

export const runBackupProgram = (...words: string[]): Promise<BackupRun> => runBackupProgramWith({}, ...words);

/** Starts the program with these variables of the environment, and does not wait. */
export function spawnBackupProgram(variables: Record<string, string>, ...words: string[]): SpawnedProgram {
  const env = { ...Object.fromEntries(settings.map((name) => [name, ''])), ...variables };
  return spawnProgram([...words, '--json'], { program, env });
}

/** Runs the program with these variables of the environment. */
export async function runBackupProgramWith(variables: Record<string, string>, ...words: string[]): Promise<BackupRun> {
  const run = spawnBackupProgram(variables, ...words);
  let peak_bytes = 0;
  let hasEnded = false;
  const ended = run.ended.then((code) => {
    hasEnded = true;
    return code;
  });
  await until(
    'the program to end',
    async () => {
      const status = await readFile(`/proc/${run.child.pid}/status`, 'utf8').catch(() => '');
      const kilobytes = /VmHWM:\s+(\d+) kB/.exec(status)?.[1];
      if (kilobytes !== undefined) peak_bytes = Number(kilobytes) * 1024;
      return hasEnded;
    },
    { seconds: 240, every_ms: 50 },
  );
  const code = await ended;
  await until('the output of the program to end', () => run.child.stdout?.readableEnded !== false);
  const result = code === 0 ? (JSON.parse(run.stdout()) as Record<string, unknown>) : undefined;
  return { code, result, output: run.output(), peak_bytes };
}
