/** Reads why an instance's agent ended: from its exit file, or else from its launcher's record. */
import { join } from 'node:path';
import { readLaunch } from './files/launch-record.ts';
import { files } from './files/node-directory.ts';
import { readRecord, readTail } from './files/small-file.ts';

export interface AgentEnd {
  /**
   * True if a restart would probably end the same way: the agent gave up or exited with an error
   * code.
   */
  would_end_again: boolean;
  summary: string;
  /** The error code from the agent's exit file. */
  code?: string;
}

/** `1 process is left`, `3 processes are left`. */
export const describeRemaining = (count: number): string =>
  count === 1 ? '1 process is left' : `${count} processes are left`;

const max_last_lines = 2;
const max_length = 300;

/** The last lines of the output usually contain the cause. */
function lastOutput(last_output: unknown): string {
  const lines = Array.isArray(last_output) ? last_output.map((line) => String(line).trim()).filter(Boolean) : [];
  const text = lines.slice(-max_last_lines).join(' · ');
  return text.length > max_length ? `…${text.slice(1 - max_length)}` : text;
}

export async function readAgentEnd(directory: string): Promise<AgentEnd | null> {
  const exitFile = await readRecord(join(directory, files.agent_exit));
  if (exitFile) {
    const reason = typeof exitFile.reason === 'string' ? exitFile.reason : 'no reason given';
    const last = lastOutput(exitFile.last_output);
    const summary = `${reason}${last && `: ${last}`} (the agent gave up: ${exitFile.code})`;
    return { would_end_again: true, summary, ...(typeof exitFile.code === 'string' && { code: exitFile.code }) };
  }
  const record = await readRecord(join(directory, files.agent_ended));
  const { pid } = await readLaunch(directory);
  if (!record || record.pid !== pid) return null;
  return typeof record.code === 'number'
    ? { would_end_again: record.code !== 0, summary: `the agent process exited with code ${record.code}` }
    : { would_end_again: false, summary: `the agent process was ended by ${record.signal}` };
}

const max_bytes = 4096;

/** Returns the last lines of an output file, short enough for a message. */
export async function readLastLines(path: string, count: number): Promise<string> {
  const text = (await readTail(path, max_bytes)) ?? '';
  return text.trimEnd().split('\n').slice(-count).join('\n');
}
