/**
 * Reads why a container's agent ended: from the agent's exit file, or else from the container
 * engine.
 */
import { inContainer } from './agent-files.ts';
import type { ContainerEnd, Engine } from './engine.ts';

export interface AgentEnd {
  /**
   * True if a restart would probably end the same way: the agent gave up, crashed or ran out of
   * memory.
   */
  would_end_again: boolean;
  summary: string;
  /** The error code from the agent's exit file, or `out_of_memory`. */
  code?: string;
}

/**
 * Exit codes that do not mean that the agent failed: clean exit, SIGKILL, SIGTERM, and 255. Docker
 * reports 255 if it does not know the exit code because the container ended while the daemon was
 * down, for example in a reboot.
 */
const exitCodesWithoutFailure = [0, 137, 143, 255];

function parseExitFile(text: string | null): { code?: string; reason?: string } | null {
  if (text === null) return null;
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' ? parsed : null;
  } catch {
    // The container ended while the agent wrote the file, so the file is incomplete.
    return null;
  }
}

function endFromEngine({ exit_code, out_of_memory, error }: ContainerEnd): AgentEnd {
  const why = error ? `: ${error}` : '';
  if (out_of_memory)
    return { would_end_again: true, summary: `the container ran out of memory${why}`, code: 'out_of_memory' };
  return {
    would_end_again: !exitCodesWithoutFailure.includes(exit_code),
    summary: `the container exited with code ${exit_code}${why}`,
  };
}

export async function readAgentEnd(engine: Engine, container: string): Promise<AgentEnd | null> {
  const end = await engine.readEnd(container);
  if (!end) return null;
  const engineEnd = endFromEngine(end);
  const exitFile = parseExitFile(await engine.readFileFrom(container, inContainer.exit));
  if (!exitFile?.code) return engineEnd;
  return {
    would_end_again: true,
    summary: `${exitFile.reason ?? 'no reason given'} (the agent gave up: ${exitFile.code})`,
    code: exitFile.code,
  };
}
