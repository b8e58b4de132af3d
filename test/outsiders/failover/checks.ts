/** Checks of a failover in the database: lost changes, waiting operations, false verdicts. */
import type { EvidenceKind } from '../../../src/contract/evidence/evidence-kinds.ts';
import { withClient } from '../../support/database.ts';
import type { AcknowledgedChanges } from './changes.ts';
import type { LightAgent } from './light-agents.ts';

const read = <Row extends object>(url: string, text: string, values: unknown[] = []): Promise<Row[]> =>
  withClient(url, async (client) => (await client.query<Row>(text, values)).rows);

/** A release may have ended, but it must never be undone. */
const queries: Record<Exclude<keyof AcknowledgedChanges, 'lastMs'>, string> = {
  created: 'select allocation_id as id from allocations',
  released: `select allocation_id as id from allocations where status in ('releasing', 'released')`,
  actions: `select correlation_id as id from evidence where kind = 'action.done'`,
  pools: 'select name as id from pools',
};

/** Returns the acknowledged changes that this database does not have. */
export async function findLost(url: string, acknowledged: AcknowledgedChanges): Promise<string[]> {
  const lost: string[] = [];
  for (const [name, text] of Object.entries(queries) as [keyof typeof queries, string][]) {
    const expectedIds = [...acknowledged[name]];
    const existingIds = new Set((await read<{ id: string }>(url, text)).map(({ id }) => id));
    lost.push(...expectedIds.filter((id) => !existingIds.has(id)).map((id) => `${name}: ${id}`));
  }
  return lost;
}

/** The state of an unfinished operation. */
export interface OperationState {
  /** Its kind and its steps so far. */
  steps: string;
  /** The number of facts that it recorded itself. */
  facts: number;
}

/**
 * Rules and agents also record facts about an operation, even if it is stuck, so only the facts
 * that its own run records are counted.
 */
export async function readUnfinished(url: string): Promise<Map<string, OperationState>> {
  const rows = await read<OperationState & { workflow_id: string }>(
    url,
    `select workflow_id, concat_ws(' ', operations.kind, operations.status, (
         select string_agg(concat_ws(' ', name, steps.status, tries), ', ' order by ordinal)
         from steps
         where steps.workflow_id = operations.workflow_id and steps.status <> 'pending'
       )) as steps, (
         select count(*)::int
         from evidence
         where evidence.workflow_id = operations.workflow_id
           and kind ~ '^(operation|step|driver)[.]'
       ) as facts
     from operations
     where operations.status in ('queued', 'running', 'cancelling')`,
  );
  return new Map(rows.map(({ workflow_id, ...state }) => [workflow_id, state]));
}

/** Verdicts and faults. None of them is expected, except about machines that died. */
const verdictKinds: EvidenceKind[] = [
  'node.offline',
  'node.degraded',
  'node.failed',
  'node.held',
  'brake.held',
  'allocation.failed',
  'allocation.release_failed',
  'operation.failed',
  'step.failed',
  'verdict.unwritable',
  'residue.left',
  'residue.found',
  'evidence.lost',
];

interface Verdict {
  kind: string;
  atMs: number;
  summary: string;
  node_id: string | null;
  stale_seconds: number | null;
  /** The operation that failed, with its steps. */
  operation: string | null;
}

export const readVerdicts = (url: string): Promise<Verdict[]> =>
  read<Verdict>(
    url,
    `select kind, (extract(epoch from at) * 1000)::double precision as "atMs", summary, node_id,
       (data -> 'evidence' ->> 'stale_seconds')::double precision as stale_seconds, (
         select concat_ws(' ', operations.kind, operations.error, (
           select string_agg(concat_ws(' ', name, steps.status, tries, started_at, finished_at), ', ' order by ordinal)
           from steps
           where steps.workflow_id = operations.workflow_id
         ))
         from operations
         where operations.workflow_id = evidence.workflow_id
       ) as operation
     from evidence
     where (kind = any($1) or (kind = 'node.quarantined' and actor is null))
       -- Excludes the verdicts that a replica holds because it stores heartbeats late.
       and not (kind = 'node.held' and data ->> 'kind' = 'self-fault')
     order by xid, seq`,
    [verdictKinds],
  );

/** Returns the facts that may delay the verdict on a dead machine: status, hold and gaps. */
export async function readReasonsToWait(url: string, { node_id, diedMs }: LightAgent): Promise<string[]> {
  const rows = await read<{ fact: string }>(
    url,
    `select concat_ws(' ', 'node', status, held) as fact
     from nodes
     where node_id = $1
     union all
     select concat_ws(' ', 'gap until', ended_at, extract(epoch from ended_at - started_at), cause)
     from ingest_gaps
     where ended_at > to_timestamp($2 / 1000.0)`,
    [node_id, diedMs],
  );
  return rows.map(({ fact }) => fact);
}

/** A busy machine may keep this process from sending heartbeats; then the silence was real. */
const wasSilent = ({ sentMs }: LightAgent, { atMs, stale_seconds }: Verdict): boolean =>
  stale_seconds !== null && !sentMs.some((ms) => ms < atMs && ms > atMs - 1000 * stale_seconds);

/**
 * Sorts verdicts into those with a real cause, by node, and those without. Skips further verdicts
 * on a dead machine.
 */
export function judgeVerdicts(verdicts: readonly Verdict[], agents: readonly LightAgent[]) {
  const real = new Map<string, Verdict>();
  const falseVerdicts: string[] = [];
  for (const verdict of verdicts) {
    const agent = agents.find(({ node_id }) => node_id === verdict.node_id);
    const isDead = agent?.diedMs != null && verdict.atMs > agent.diedMs;
    const isOffline = verdict.kind === 'node.offline';
    if (agent && isOffline && (isDead || wasSilent(agent, verdict))) real.set(agent.node_id, verdict);
    else if (!isDead) falseVerdicts.push(describe(verdict, agent));
  }
  return { real, falseVerdicts };
}

/** Includes all known facts, because a rare failure may not happen again. */
function describe({ kind, atMs, summary, node_id, operation }: Verdict, agent: LightAgent | undefined): string {
  const sent = agent?.sentMs.filter((ms) => Math.abs(ms - atMs) < 20_000).map((ms) => ((ms - atMs) / 1000).toFixed(1));
  const facts = [
    `${kind} at ${new Date(atMs).toISOString()}: ${summary}`,
    node_id,
    operation && `operation: ${operation}`,
    sent && `heartbeats sent at ${sent.join(', ')} s`,
  ];
  return facts.filter(Boolean).join('; ');
}
