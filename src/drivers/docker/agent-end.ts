/**
 * How a container's agent ended: by its own exit file if there is one, else as the engine reports
 * it.
 */
import { inContainer } from './agent-files.ts';
import type { ContainerEnd, Engine } from './engine.ts';

export interface AgentEnd {
  /** It ended by itself and would do so again; it was not ended from outside. */
  by_itself: boolean;
  summary: string;
  /** The agent's own code. */
  code?: string;
}

/**
 * Exit codes that do not mean that the agent failed: clean exit, SIGKILL, SIGTERM, and 255, which
 * Docker reports for a container that was gone when the daemon came back, as after a reboot. Its
 * real exit code is unknown.
 */
const fromOutside = [0, 137, 143, 255];

function exitFileFrom(text: string | null): { code?: string; reason?: string } | null {
  if (text === null) return null;
  try {
    const said: unknown = JSON.parse(text);
    return typeof said === 'object' ? said : null;
  } catch {
    // Cut short by the container's end; ignore it.
    return null;
  }
}

function seenByEngine({ exit_code, out_of_memory, error }: ContainerEnd): AgentEnd {
  const why = error ? `: ${error}` : '';
  if (out_of_memory)
    return { by_itself: true, summary: `the container ran out of memory${why}`, code: 'out_of_memory' };
  return { by_itself: !fromOutside.includes(exit_code), summary: `the container exited with code ${exit_code}${why}` };
}

export async function agentEnd(engine: Engine, container: string): Promise<AgentEnd | null> {
  const end = await engine.endOf(container);
  if (!end) return null;
  const seen = seenByEngine(end);
  const said = exitFileFrom(await engine.fileIn(container, inContainer.exit));
  if (!said?.code) return seen;
  return {
    by_itself: true,
    summary: `${said.reason ?? 'no reason given'} (the agent gave up: ${said.code})`,
    code: said.code,
  };
}
