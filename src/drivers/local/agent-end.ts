/**
 * How an instance's agent ended: by its own exit file if there is one, else as its launcher saw it.
 */
import { join } from 'node:path';
import { readLaunch } from './files/launch-record.ts';
import { files } from './files/node-directory.ts';
import { readRecord, tailOf } from './files/small-file.ts';

export interface AgentEnd {
  /**
   * The agent ended by itself and would end again after a restart; it was not killed from outside.
   */
  by_itself: boolean;
  summary: string;
  /** The agent's own code. */
  code?: string;
}

/** `1 process is left`, `3 processes are left`. */
export const processesLeft = (count: number): string =>
  count === 1 ? '1 process is left' : `${count} processes are left`;

const max_last_lines = 2;
const max_length = 300;

/** The end of the last output usually says why. */
function lastOutput(last_output: unknown): string {
  const lines = Array.isArray(last_output) ? last_output.map((line) => String(line).trim()).filter(Boolean) : [];
  const said = lines.slice(-max_last_lines).join(' · ');
  return said.length > max_length ? `…${said.slice(1 - max_length)}` : said;
}

export async function agentEnd(directory: string): Promise<AgentEnd | null> {
  const said = await readRecord(join(directory, files.agent_exit));
  if (said) {
    const reason = typeof said.reason === 'string' ? said.reason : 'no reason given';
    const last = lastOutput(said.last_output);
    const summary = `${reason}${last && `: ${last}`} (the agent gave up: ${said.code})`;
    return { by_itself: true, summary, ...(typeof said.code === 'string' && { code: said.code }) };
  }
  const seen = await readRecord(join(directory, files.agent_ended));
  const { pid } = await readLaunch(directory);
  if (!seen || seen.pid !== pid) return null;
  return typeof seen.code === 'number'
    ? { by_itself: seen.code !== 0, summary: `the agent process exited with code ${seen.code}` }
    : { by_itself: false, summary: `the agent process was ended by ${seen.signal}` };
}

const max_bytes = 4096;

/** The last lines of an output, short enough for a message. */
export async function lastLines(path: string, count: number): Promise<string> {
  const text = (await tailOf(path, max_bytes)) ?? '';
  return text.trimEnd().split('\n').slice(-count).join('\n');
}
