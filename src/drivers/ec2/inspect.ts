/**
 * Read-only calls: the state of an instance (`observe`), proof of its absence (`prove`), and
 * everything of ours (`list_owned`).
 */
import { onlyProvesAbsence, unseen } from '../answers.ts';
import type { Diagnosis, DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import type { Cloud } from './cloud.ts';
import { codeOf } from './cloud-error.ts';
import {
  type Ec2Host,
  hasEnded,
  mayAppear,
  notTerminated,
  ownAnywhere,
  type Placed,
  regionOf,
  settlingWait,
} from './ec2-host.ts';
import type { Redact } from './secrets.ts';
import { idsIn, instanceTags, tagNames } from './tags.ts';

const absent: Observation = { state: 'absent', present: false, ready: false, detail: null };

export async function observe(host: Ec2Host, target: DriverTarget): Promise<Observation> {
  const region = regionOf(target);
  if (region === undefined) return absent;
  const rows = await host.list(await host.cloudAt(region), target.installation_id);
  const own = rows.filter(({ tags }) => idsIn(tags).node_instance_id === target.node_instance_id);
  const row = own.find(({ state }) => state !== 'terminated');
  if (row) return { state: row.state, present: true, ready: row.state === 'running', detail: row.reason };
  if (own.length === 0 && mayAppear(host, target)) return unseen(settlingWait.message);
  return { ...absent, detail: own[0]?.reason ?? null };
}

async function partsLeft(clouds: Cloud[], target: DriverTarget): Promise<string[]> {
  const parts = await Promise.all(clouds.map((cloud) => cloud.parts(instanceTags(target))));
  return parts.flat().map(({ kind, id, state }) => `${kind} ${id} (${state})`);
}

export async function prove(
  host: Ec2Host,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return onlyProvesAbsence('ec2', kind);
  const { clouds, found, disowned, settling } = await ownAnywhere(host, target);
  if (settling) return settlingWait;
  const machines = [...found, ...disowned].filter(notTerminated);
  const left = [
    ...machines.map(({ cloud, row }) => `instance ${row.id} (${row.state}) in ${cloud.region}`),
    ...(await partsLeft(clouds, target)),
  ];
  if (left.length > 0)
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'not_absent',
      message: `still there: ${left.join(' and ')}`,
      retryable: true,
    };
  const tag = `${tagNames.node_instance_id}=${target.node_instance_id}`;
  const checked = clouds.flatMap((cloud) => {
    const terminated = found.filter((placed) => placed.cloud === cloud).map(({ row }) => `${row.id} (terminated)`);
    return [
      { what: `instances in ${cloud.region} that carry ${tag}`, seen: terminated.join(', ') || 'none' },
      { what: `volumes and network interfaces in ${cloud.region} that carry ${tag}`, seen: 'none' },
    ];
  });
  host.refused.delete(target.node_instance_id);
  return { outcome: 'done', proof: { kind, nonce, checked } };
}

/**
 * Lists a volume or an interface only if it is not attached: otherwise it goes with its machine.
 */
export async function listOwned(host: Ec2Host, installation_id: string): Promise<OwnedResource[]> {
  const clouds = await Promise.all((await host.regionsInUse()).map((region) => host.cloudAt(region)));
  const listed = await Promise.all(
    clouds.map(async (cloud): Promise<OwnedResource[]> => {
      const [rows, parts] = await Promise.all([
        host.list(cloud, installation_id),
        cloud.parts({ [tagNames.installation_id]: installation_id }),
      ]);
      const machines = rows.filter(({ state }) => state !== 'terminated');
      const loose = parts.filter(({ state }) => state === 'available');
      return [
        ...machines.map(({ id, tags }) => ({ resource: id, kind: 'instance', ...idsIn(tags) })),
        ...loose.map(({ id, kind, tags }) => ({ resource: id, kind, ...idsIn(tags) })),
      ];
    }),
  );
  return listed.flat();
}

const max_lines = 200;

/** The last message of our boot script on the console, if it gave up. */
function bootMessageIn(text: string): { code: string; summary: string } | null {
  const said = [...text.matchAll(/slipway: (boot failed|agent ended): ([a-z_]+): ([^\r\n]*)/g)].at(-1);
  const [, how, code, words] = said ?? [];
  return how && code ? { code, summary: `${words} (${how}: ${code})` } : null;
}

/** A part that cannot be read must not hide the others. */
const orNothing = async <T>(answer: Promise<T>, nothing: T): Promise<T | { refused: string }> =>
  answer.catch((error: unknown) => (codeOf(error) ? { refused: codeOf(error) } : nothing));

async function shown(cloud: Cloud, { row }: Placed) {
  const [console_text, checks] = await Promise.all([
    orNothing(cloud.consoleText(row.id), ''),
    row.state === 'running' ? orNothing(cloud.checks(row.id), null) : null,
  ]);
  const text = typeof console_text === 'string' ? console_text : '';
  const unread = typeof console_text === 'string' ? null : `its console cannot be read (${console_text.refused})`;
  const health =
    checks && 'system' in checks
      ? [`status checks: machine ${checks.instance}, its host ${checks.system}`, ...checks.events].join('; ')
      : null;
  return { text, notes: [row.reason, health, unread].filter((note) => note !== null) };
}

/**
 * Collects what only the provider has: the reason for a machine's state, its status checks and its
 * console. Works on a dead machine too.
 */
export async function diagnose(host: Ec2Host, target: DriverTarget, redact: Redact): Promise<Diagnosis> {
  const { found, settling } = await ownAnywhere(host, target);
  const placed = found.find((each) => !hasEnded(each)) ?? found[0];
  if (!placed) {
    const summary = settling ? 'a machine was asked for and is not listed yet' : 'no machine of this instance exists';
    return { summary, certain: false, attachments: [] };
  }
  const { row, cloud } = placed;
  const { text, notes } = await shown(cloud, placed);
  const lines = redact(text).trimEnd().split('\n').slice(-max_lines).join('\n');
  const word = bootMessageIn(text);
  const seen = `${row.id} in ${cloud.region} is ${row.state}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`;
  const down = hasEnded(placed) || row.state === 'stopped';
  return {
    summary: redact(word ? `${word.summary}; ${seen}` : seen),
    // Nothing restarts a machine while its registration is awaited, so waiting longer cannot help.
    certain: (down || word !== null) && typeof target.state.stop_asked_at_ms !== 'number',
    ...(word && { code: word.code }),
    attachments: lines ? [{ name: 'console.log', text: lines }] : [],
  };
}
