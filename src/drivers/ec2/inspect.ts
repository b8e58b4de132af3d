/**
 * The driver's read-only calls: the state of an instance (`inspect`), proof of its absence
 * (`prove`), all resources of the installation (`list_owned`), and `diagnose`.
 */
import { absenceOnlyFailure, unseenObservation } from '../answers.ts';
import type { Diagnosis, DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import type { Cloud } from './cloud.ts';
import { codeOf } from './cloud-error.ts';
import {
  type Ec2Host,
  findInstance,
  hasEnded,
  isNotTerminated,
  mayAppear,
  type PlacedMachine,
  regionOf,
  settlingWait,
} from './ec2-host.ts';
import type { Redact } from './secrets.ts';
import { idsIn, instanceTags, tagNames } from './tags.ts';

const absentObservation: Observation = { state: 'absent', present: false, ready: false, detail: null };

export async function inspect(host: Ec2Host, target: DriverTarget): Promise<Observation> {
  const region = regionOf(target);
  if (region === undefined) return absentObservation;
  const rows = await host.list(await host.cloudAt(region), target.installation_id);
  const ownRows = rows.filter(({ tags }) => idsIn(tags).node_instance_id === target.node_instance_id);
  const row = ownRows.find(({ state }) => state !== 'terminated');
  if (row) return { state: row.state, present: true, ready: row.state === 'running', detail: row.reason };
  if (ownRows.length === 0 && mayAppear(host, target)) return unseenObservation(settlingWait.message);
  return { ...absentObservation, detail: ownRows[0]?.reason ?? null };
}

async function listParts(clouds: Cloud[], target: DriverTarget): Promise<string[]> {
  const parts = await Promise.all(clouds.map((cloud) => cloud.parts(instanceTags(target))));
  return parts.flat().map(({ kind, id, state }) => `${kind} ${id} (${state})`);
}

export async function prove(
  host: Ec2Host,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return absenceOnlyFailure('ec2', kind);
  const { clouds, machines, disowned, settling } = await findInstance(host, target);
  if (settling) return settlingWait;
  const remaining = [...machines, ...disowned].filter(isNotTerminated);
  const resources = [
    ...remaining.map(({ cloud, row }) => `instance ${row.id} (${row.state}) in ${cloud.region}`),
    ...(await listParts(clouds, target)),
  ];
  if (resources.length > 0)
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'not_absent',
      message: `still there: ${resources.join(' and ')}`,
      retryable: true,
    };
  const tag = `${tagNames.node_instance_id}=${target.node_instance_id}`;
  const checked = clouds.flatMap((cloud) => {
    const terminated = machines.filter((placed) => placed.cloud === cloud).map(({ row }) => `${row.id} (terminated)`);
    return [
      { what: `instances in ${cloud.region} with the tag ${tag}`, seen: terminated.join(', ') || 'none' },
      { what: `volumes and network interfaces in ${cloud.region} with the tag ${tag}`, seen: 'none' },
    ];
  });
  host.refused.delete(target.node_instance_id);
  return { outcome: 'done', proof: { kind, nonce, checked } };
}

/** Lists volumes and interfaces only if they are not attached: others end with their machine. */
export async function listOwned(host: Ec2Host, installation_id: string): Promise<OwnedResource[]> {
  const clouds = await Promise.all((await host.regionsInUse()).map((region) => host.cloudAt(region)));
  const resources = await Promise.all(
    clouds.map(async (cloud): Promise<OwnedResource[]> => {
      const [rows, parts] = await Promise.all([
        host.list(cloud, installation_id),
        cloud.parts({ [tagNames.installation_id]: installation_id }),
      ]);
      const machines = rows.filter(({ state }) => state !== 'terminated');
      const detachedParts = parts.filter(({ state }) => state === 'available');
      return [
        ...machines.map(({ id, tags }) => ({ resource: id, kind: 'instance', ...idsIn(tags) })),
        ...detachedParts.map(({ id, kind, tags }) => ({ resource: id, kind, ...idsIn(tags) })),
      ];
    }),
  );
  return resources.flat();
}

const max_lines = 200;

/** Finds the last failure that the boot script or the agent's unit printed on the console. */
function findBootFailure(text: string): { code: string; summary: string } | null {
  const lastMatch = [...text.matchAll(/slipway: (boot failed|agent ended): ([a-z_]+): ([^\r\n]*)/g)].at(-1);
  const [, event, code, message] = lastMatch ?? [];
  return event && code ? { code, summary: `${message} (${event}: ${code})` } : null;
}

/** Reports a failed read as data, so that the other parts of the diagnosis are still shown. */
const orRefusal = async <T>(answer: Promise<T>, fallback: T): Promise<T | { refused: string }> =>
  answer.catch((error: unknown) => (codeOf(error) ? { refused: codeOf(error) } : fallback));

async function readConsoleAndChecks(cloud: Cloud, { row }: PlacedMachine) {
  const [console_text, checks] = await Promise.all([
    orRefusal(cloud.consoleText(row.id), ''),
    row.state === 'running' ? orRefusal(cloud.checks(row.id), null) : null,
  ]);
  const text = typeof console_text === 'string' ? console_text : '';
  const readProblem = typeof console_text === 'string' ? null : `the console cannot be read (${console_text.refused})`;
  const health =
    checks && 'system' in checks
      ? [`status checks: machine ${checks.instance}, its host ${checks.system}`, ...checks.events].join('; ')
      : null;
  return { text, notes: [row.reason, health, readProblem].filter((note) => note !== null) };
}

/**
 * Collects what only the provider has: the reason for a machine's state, its status checks and its
 * console. Works on a terminated machine too.
 */
export async function diagnose(host: Ec2Host, target: DriverTarget, redact: Redact): Promise<Diagnosis> {
  const { machines, settling } = await findInstance(host, target);
  const placed = machines.find((machine) => !hasEnded(machine)) ?? machines[0];
  if (!placed) {
    const summary = settling ? 'a machine was requested and is not listed yet' : 'no machine of this instance exists';
    return { summary, certain: false, attachments: [] };
  }
  const { row, cloud } = placed;
  const { text, notes } = await readConsoleAndChecks(cloud, placed);
  const lines = redact(text).trimEnd().split('\n').slice(-max_lines).join('\n');
  const failure = findBootFailure(text);
  const stateText = `${row.id} in ${cloud.region} is ${row.state}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`;
  const isDown = hasEnded(placed) || row.state === 'stopped';
  return {
    summary: redact(failure ? `${failure.summary}; ${stateText}` : stateText),
    // Nothing restarts a machine while the control plane waits for its registration, so a longer
    // wait cannot help.
    certain: (isDown || failure !== null) && typeof target.state.stop_asked_at_ms !== 'number',
    ...(failure && { code: failure.code }),
    attachments: lines ? [{ name: 'console.log', text: lines }] : [],
  };
}
