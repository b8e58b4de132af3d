/** What only the engine knows: how the container ended, and the last lines it wrote. Works on a dead container too. */
import type { Diagnosis, DriverTarget } from '../driver.ts';
import { agentEnd } from './agent-end.ts';
import { type DockerHost, ownAnywhere } from './docker-host.ts';

const most_lines = 100;

export async function diagnose(host: DockerHost, target: DriverTarget): Promise<Diagnosis> {
  const [placed] = (await ownAnywhere(host, target)).found;
  if (!placed) return { summary: 'no container of this instance exists', certain: false, attachments: [] };
  const { engine, row } = placed;
  const text = host.strike(await engine.lastLines(row.id, most_lines));
  const attachments = text ? [{ name: 'container.log', text }] : [];
  const shown = `container ${row.id.slice(0, 12)} is ${row.state} (${row.status})`;
  if (row.state !== 'exited' && row.state !== 'dead') return { summary: shown, certain: false, attachments };
  const end = await agentEnd(engine, row.id);
  return {
    summary: host.strike(end?.summary ?? shown),
    // Nobody starts a container again while its registration is waited for, so waiting longer cannot help.
    certain: typeof target.state.stop_asked_at_ms !== 'number',
    ...(end?.code && { code: end.code }),
    attachments,
  };
}
