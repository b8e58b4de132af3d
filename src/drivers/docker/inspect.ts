/**
 * The driver's read-only calls: the state of an instance (`inspect`), proof of its absence
 * (`prove`), all containers of the installation (`list_owned`), and `diagnose`.
 */
import { absenceOnlyFailure } from '../answers.ts';
import type { Diagnosis, DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import { readAgentEnd } from './agent-end.ts';
import { addressOf, type DockerHost, findInstance } from './docker-host.ts';
import { idsIn, labelNames } from './labels.ts';

export async function inspect(host: DockerHost, target: DriverTarget): Promise<Observation> {
  const engine = await host.engineAt(addressOf(target));
  const rows = await host.list(engine, target.installation_id);
  const row = rows.find(({ labels }) => idsIn(labels).node_instance_id === target.node_instance_id);
  if (!row) return { state: 'absent', present: false, ready: false, detail: null };
  return { state: row.state, present: true, ready: row.state === 'running', detail: row.status };
}

export async function prove(
  host: DockerHost,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return absenceOnlyFailure('docker', kind);
  const { engines, containers } = await findInstance(host, target);
  if (containers.length > 0) {
    const remaining = containers
      .map(({ engine, row }) => `container ${row.id.slice(0, 12)} (${row.state}) on ${engine.address}`)
      .join(' and ');
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'not_absent',
      message: `still there: ${remaining}`,
      retryable: true,
    };
  }
  const checked = engines.map(({ address, on_this_host }) => ({
    what: `containers, running or not, of the engine at ${address}${on_this_host ? ` on host ${host.host_id}` : ''} with the label ${labelNames.node_instance_id}=${target.node_instance_id}`,
    seen: 'none',
  }));
  return { outcome: 'done', proof: { kind, nonce, checked } };
}

export async function listOwned(host: DockerHost, installation_id: string): Promise<OwnedResource[]> {
  const engines = await Promise.all(
    (await host.addressesInUse()).map((address) => host.engineAt(address ?? undefined)),
  );
  const distinct = [...new Map(engines.map((engine) => [engine.address, engine])).values()];
  const rows = await Promise.all(distinct.map((engine) => host.list(engine, installation_id)));
  return rows.flat().map(({ id, labels }) => ({ resource: id, kind: 'container', ...idsIn(labels) }));
}

const max_lines = 100;

/**
 * Collects what only the engine has: how the container ended, and its last lines. Works on an ended
 * container too.
 */
export async function diagnose(host: DockerHost, target: DriverTarget): Promise<Diagnosis> {
  const [placed] = (await findInstance(host, target)).containers;
  if (!placed) return { summary: 'no container of this instance exists', certain: false, attachments: [] };
  const { engine, row } = placed;
  const text = host.redact(await engine.readLastLines(row.id, max_lines));
  const attachments = text ? [{ name: 'container.log', text }] : [];
  const stateText = `container ${row.id.slice(0, 12)} is ${row.state} (${row.status})`;
  if (row.state !== 'exited' && row.state !== 'dead') return { summary: stateText, certain: false, attachments };
  const end = await readAgentEnd(engine, row.id);
  return {
    summary: host.redact(end?.summary ?? stateText),
    // Nothing restarts a container while the control plane waits for its registration, so a
    // longer wait cannot help.
    certain: typeof target.state.stop_asked_at_ms !== 'number',
    ...(end?.code && { code: end.code }),
    attachments,
  };
}
