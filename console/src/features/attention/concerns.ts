/**
 * Decides which things need a person, and sorts them into sections, worst first. In most sections
 * the oldest concern comes first. Pure.
 */
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { ServerProblem } from '../../../../src/contract/fleet/server-status.ts';
import type { Node } from '../../../../src/contract/node.ts';
import type { Operation, Step } from '../../../../src/contract/operation.ts';
import type { Pool } from '../../../../src/contract/pool.ts';
import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import type { Brake, SweepRuns } from '../../../../src/contract/supervision/supervision.ts';
import { findingSince } from '../drift/words.ts';
import { type Hold, isOpenHold } from '../supervision/words.ts';

export type Sweep = SweepRuns['items'][number];

export type Concern =
  | { kind: 'server'; problem: ServerProblem }
  | { kind: 'hold'; hold: Hold }
  | { kind: 'sweep'; sweep: Sweep }
  | { kind: 'release'; allocation: Allocation; gave_up: boolean }
  | { kind: 'node'; node: Node }
  | { kind: 'allocation'; allocation: Allocation }
  | { kind: 'teardown'; node: Node; operation: Operation; step: Step }
  | { kind: 'residue'; residue: Residue }
  | { kind: 'finding'; finding: Finding };

/** Worst first. */
export const sectionNames = [
  'server',
  'held',
  'sweeps',
  'given_up',
  'silent',
  'quarantined',
  'failed',
  'unserved',
  'degraded',
  'teardowns',
  'residue',
  'slower',
  'drift',
  'retried',
] as const;
export type SectionName = (typeof sectionNames)[number];

export interface Section {
  name: SectionName;
  concerns: Concern[];
}

/** Each field is undefined until it is read. Some are never read for tenants. */
export interface Known {
  /** Problems of the replica that answers; never read for viewers. */
  server: readonly ServerProblem[] | undefined;
  brake: Brake | undefined;
  sweeps: readonly Sweep[] | undefined;
  pools: readonly Pool[] | undefined;
  release_failed: readonly Allocation[] | undefined;
  offline: readonly Node[] | undefined;
  quarantined: readonly Node[] | undefined;
  failed: readonly Node[] | undefined;
  failed_allocations: readonly Allocation[] | undefined;
  degraded: readonly Node[] | undefined;
  cleaning: readonly Node[] | undefined;
  running: readonly Operation[] | undefined;
  residue: readonly Residue[] | undefined;
  findings: readonly Finding[] | undefined;
}

/** The default of `release.max_retries` in a pool. */
const defaultRetries = 8;

/** After its last quick try, a release is retried hourly until a person acts. */
export const hasGivenUp = ({ pool, release_tries }: Allocation, pools: readonly Pool[] | undefined): boolean =>
  release_tries > (pools?.find(({ name }) => name === pool)?.release?.max_retries ?? defaultRetries);

type ConcernOf<Kind extends Concern['kind']> = Extract<Concern, { kind: Kind }>;

/** The id of each kind of concern, and when it began. */
const kinds: {
  [Kind in Concern['kind']]: { id: (concern: ConcernOf<Kind>) => string; since: (concern: ConcernOf<Kind>) => string };
} = {
  server: {
    id: ({ problem }) => `${problem.code} ${problem.facts.sweep ?? ''}`,
    since: ({ problem }) => problem.since,
  },
  hold: { id: ({ hold }) => hold.hold_id, since: ({ hold }) => hold.since },
  sweep: { id: ({ sweep }) => sweep.name, since: ({ sweep }) => sweep.failed_at ?? '' },
  release: { id: ({ allocation }) => allocation.allocation_id, since: ({ allocation }) => allocation.status_since },
  allocation: { id: ({ allocation }) => allocation.allocation_id, since: ({ allocation }) => allocation.status_since },
  node: { id: ({ node }) => node.node_id, since: ({ node }) => node.status_since },
  teardown: { id: ({ node }) => node.node_id, since: ({ node }) => node.status_since },
  residue: { id: ({ residue }) => residue.residue_id, since: ({ residue }) => residue.since },
  finding: {
    id: ({ finding }) => finding.finding_id,
    since: ({ finding }) => findingSince(finding),
  },
};

// The type of a lookup cannot express that each entry takes a concern of its own kind.
const kindOf = (concern: Concern) => kinds[concern.kind] as Record<'id' | 'since', (concern: Concern) => string>;

export const concernId = (concern: Concern): string => kindOf(concern).id(concern);
export const concernSince = (concern: Concern): string => kindOf(concern).since(concern);

const longestFirst = (a: Concern, b: Concern) => (concernSince(a) < concernSince(b) ? -1 : 1);
/** A silent machine with an allocation comes before one without, even if silent for less time. */
const servingFirst = (a: Node, b: Node) => Number(a.allocation_id === null) - Number(b.allocation_id === null);
/** Higher cost first. */
const costliestFirst = (a: Residue, b: Residue) =>
  (b.cost_per_hour ?? 0) - (a.cost_per_hour ?? 0) || (a.since < b.since ? -1 : 1);

/** Boots that overrun their budget come before those that are only slower. */
const overBudgetFirst = (a: ConcernOf<'finding'>, b: ConcernOf<'finding'>) =>
  Number(b.finding.theirs.past_budget_share ?? 0) - Number(a.finding.theirs.past_budget_share ?? 0);

const unfinishedStatuses: ReadonlySet<string> = new Set(['queued', 'running', 'cancelling']);

/**
 * Failed allocations whose machine is not listed as failed or quarantined: it was taken down or
 * never existed. Each stays listed until a person retries or releases it.
 */
function findUnservedAllocations({ failed_allocations, failed, quarantined }: Known): Allocation[] {
  const listedIds = new Set([...(failed ?? []), ...(quarantined ?? [])].map(({ allocation_id }) => allocation_id));
  return (failed_allocations ?? []).filter(
    ({ allocation_id, progress }) =>
      !listedIds.has(allocation_id) && !(progress && unfinishedStatuses.has(progress.status)),
  );
}

/** A machine is often degraded for a moment. It needs a person only if that lasts this long. */
export const lastingSeconds = 120;
const isLasting =
  (nowMs: number) =>
  ({ status_since }: Node) =>
    nowMs - Date.parse(status_since) >= lastingSeconds * 1000;

/** Teardowns with a failed try, except those of a release, which have sections of their own. */
function findFailingTeardowns({ cleaning, running }: Known): Concern[] {
  return (cleaning ?? []).flatMap((node) => {
    const operation = running?.find(({ workflow_id }) => workflow_id === node.workflow_id);
    const step = operation?.steps.find(
      ({ error, finished_at, status }) => error && (!finished_at || status === 'waiting'),
    );
    return operation && step && operation.allocation_id === null
      ? [{ kind: 'teardown', node, operation, step } as const]
      : [];
  });
}

export function sectionsOf(known: Known, nowMs: number): Section[] {
  const releases = (known.release_failed ?? []).map(
    (allocation) => ({ kind: 'release', allocation, gave_up: hasGivenUp(allocation, known.pools) }) as const,
  );
  const findings = (known.findings ?? [])
    .map((finding) => ({ kind: 'finding', finding }) as const)
    .toSorted(longestFirst);
  const toNodeConcern = (node: Node) => ({ kind: 'node', node }) as const;
  const concernsBySection: Record<SectionName, Concern[]> = {
    // Failing sweeps have a section of their own.
    server: (known.server ?? [])
      .filter(({ code }) => code !== 'sweep_failing')
      .map((problem) => ({ kind: 'server', problem }) as const)
      .toSorted(longestFirst),
    held: (known.brake?.holds ?? []).filter(isOpenHold).map((hold) => ({ kind: 'hold', hold })),
    sweeps: (known.sweeps ?? []).filter(({ error }) => error !== null).map((sweep) => ({ kind: 'sweep', sweep })),
    given_up: releases.filter(({ gave_up }) => gave_up).toSorted(longestFirst),
    silent: (known.offline ?? [])
      .map(toNodeConcern)
      .toSorted((a, b) => servingFirst(a.node, b.node) || longestFirst(a, b)),
    quarantined: (known.quarantined ?? []).map(toNodeConcern).toSorted(longestFirst),
    failed: (known.failed ?? []).map(toNodeConcern).toSorted(longestFirst),
    unserved: findUnservedAllocations(known)
      .map((allocation) => ({ kind: 'allocation', allocation }) as const)
      .toSorted(longestFirst),
    degraded: (known.degraded ?? []).filter(isLasting(nowMs)).map(toNodeConcern).toSorted(longestFirst),
    teardowns: findFailingTeardowns(known).toSorted(longestFirst),
    residue: (known.residue ?? []).toSorted(costliestFirst).map((residue) => ({ kind: 'residue', residue })),
    slower: findings.filter(({ finding }) => finding.kind === 'boot-shift').toSorted(overBudgetFirst),
    drift: findings.filter(({ finding }) => finding.kind !== 'boot-shift'),
    retried: releases.filter(({ gave_up }) => !gave_up).toSorted(longestFirst),
  };
  return sectionNames
    .map((name) => ({ name, concerns: concernsBySection[name] }))
    .filter(({ concerns }) => concerns.length > 0);
}

export const countOf = (sections: readonly Section[]): number =>
  sections.reduce((sum, { concerns }) => sum + concerns.length, 0);

/** Why a list could not be read, and after how many seconds it is read again; null if never. */
export interface ReadFailure {
  reason: string;
  retry_seconds: number | null;
}

function countWords(count: number, isAll: boolean): string {
  if (count === 0) return 'Nothing needs you';
  if (count === 1 && isAll) return 'One thing needs you';
  return `${count}${isAll ? '' : ' or more'} things need you, worst first`;
}

export function attentionHeadline(count: number, isAll: boolean, failure: ReadFailure | null): string {
  if (!failure) return countWords(count, isAll);
  const { reason, retry_seconds } = failure;
  const what =
    count === 0 ? 'Unknown whether anything needs you' : `${countWords(count, false)}. Not everything could be read`;
  return `${what}: ${reason}${retry_seconds === null ? '' : `; retrying every ${retry_seconds} s`}`;
}

/** The count beside the Attention link; null if nothing needs a person. */
export function attentionMark(count: number, isAll: boolean, isKnown: boolean): string | null {
  if (count === 0) return isKnown ? null : '?';
  return `${count}${isAll && isKnown ? '' : '+'}`;
}
