/** What is known about how an instance's agent ended: its own word first, then what its launcher saw. */
import { join } from 'node:path';
import { readLaunch } from './launch-record.ts';
import { files } from './node-directory.ts';
import { readRecord, tailOf } from './small-file.ts';

export interface AgentEnd {
  /** It ended by itself and would do so again; not killed from outside. */
  by_itself: boolean;
  summary: string;
}

export async function agentEnd(directory: string): Promise<AgentEnd | null> {
  const said = await readRecord(join(directory, files.agent_exit));
  if (said) {
    const reason = typeof said.reason === 'string' ? said.reason : 'no reason given';
    return { by_itself: true, summary: `the agent gave up with code ${said.code}: ${reason}` };
  }
  const seen = await readRecord(join(directory, files.agent_ended));
  const { pid } = await readLaunch(directory);
  if (!seen || seen.pid !== pid) return null;
  return typeof seen.code === 'number'
    ? { by_itself: seen.code !== 0, summary: `the agent process exited with code ${seen.code}` }
    : { by_itself: false, summary: `the agent process was ended by ${seen.signal}` };
}

const most_bytes = 4096;

/** The last lines of an output, short enough for a message. */
export async function lastLines(path: string, count: number): Promise<string> {
  const text = (await tailOf(path, most_bytes)) ?? '';
  return text.trimEnd().split('\n').slice(-count).join('\n');
}
