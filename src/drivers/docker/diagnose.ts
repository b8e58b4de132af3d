/**
 * Collects what only the engine has: how the container ended, and its last lines. Works on a dead
 * container too.
 */
import type { Diagnosis, DriverTarget } from '../driver.ts';
import { agentEnd } from './agent-end.ts';
import { type DockerHost, ownAnywhere } from './docker-host.ts';

const max_lines = 100;

export async function diagnose(host: DockerHost, target: DriverTarget): Promise<Diagnosis> {
  const [placed] = (await ownAnywhere(host, target)).found;
  if (!placed) return { summary: 'no container of this instance exists', certain: false, attachments: [] };
  const { engine, row } = placed;
  const text = host.redact(await engine.lastLines(row.id, max_lines));
  const attachments = text ? [{ name: 'container.log', text }] : [];
  const shown = `container ${row.id.slice(0, 12)} is ${row.state} (${row.status})`;
  if (row.state !== 'exited' && row.state !== 'dead') return { summary: shown, certain: false, attachments };
  const end = await agentEnd(engine, row.id);
  return {
    summary: host.redact(end?.summary ?? shown),
    // Nothing restarts a container while its registration is awaited, so waiting longer cannot
    // help.
    certain: typeof target.state.stop_asked_at_ms !== 'number',
    ...(end?.code && { code: end.code }),
    attachments,
  };
}
