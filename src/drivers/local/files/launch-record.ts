/** The record of how often an instance's agent was launched, and as which process. */
import { join } from 'node:path';
import { files } from './node-directory.ts';
import { readRecord } from './small-file.ts';

export interface LaunchRecord {
  /** Counted before the process is started, so that a crash in between still counts. */
  launches: number;
  pid: number | null;
  start: string | null;
  /** The server that launched the agent. Only this process receives and records the exit code. */
  launcher: { pid: number; start: string } | null;
}

function launcherFrom(value: unknown): LaunchRecord['launcher'] {
  if (typeof value !== 'object' || value === null || !('pid' in value) || !('start' in value)) return null;
  const { pid, start } = value;
  return typeof pid === 'number' && typeof start === 'string' ? { pid, start } : null;
}

export async function readLaunch(directory: string): Promise<LaunchRecord> {
  const record = await readRecord(join(directory, files.launch));
  return {
    launches: typeof record?.launches === 'number' ? record.launches : 0,
    pid: typeof record?.pid === 'number' ? record.pid : null,
    start: typeof record?.start === 'string' ? record.start : null,
    launcher: launcherFrom(record?.launcher),
  };
}
