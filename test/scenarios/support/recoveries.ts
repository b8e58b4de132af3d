/** Starts bulk recoveries through the API and checks the rows that they write. */
import { expect } from 'vitest';
import type { Client } from '../../../src/contract/client.ts';
import type { Operation } from '../../../src/contract/operation.ts';
import type { RecoveryRequest } from '../../../src/contract/supervision/recovery.ts';
import type { DatabaseConnection } from '../../support/database-connection.ts';

export interface Target {
  ordinal: number;
  allocation_id: string;
  state: string;
  reason: string | null;
  acted_ms: number | null;
  ended_ms: number | null;
}

export const readTargets = (db: DatabaseConnection, workflow_id: string): Promise<Target[]> =>
  db.query<Target>(
    `select ordinal, allocation_id, state, reason, extract(epoch from acted_at)::double precision * 1000 as acted_ms,
       extract(epoch from ended_at)::double precision * 1000 as ended_ms
     from recovery_targets where workflow_id = $1 order by ordinal`,
    [workflow_id],
  );

export const countStatuses = async (db: DatabaseConnection): Promise<Record<string, number>> => {
  const rows = await db.query<{ status: string; count: number }>(
    'select status, count(*)::int as count from allocations group by status',
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
};

/**
 * Counts how often a recovery released each allocation, and how many of these requests name an
 * actor.
 */
export const countReleaseRequests = (db: DatabaseConnection, workflow_id: string) =>
  db.query<{ allocation_id: string; times: number; actors: number }>(
    `select evidence.allocation_id, count(*)::int as times, count(evidence.actor)::int as actors
     from evidence join operations recovery on recovery.workflow_id = $1
     where evidence.kind = 'allocation.releasing' and evidence.correlation_id = recovery.correlation_id
     group by evidence.allocation_id`,
    [workflow_id],
  );

export const isOver = ({ status }: Operation) =>
  status === 'succeeded' || status === 'failed' || status === 'cancelled';

export async function recover(client: Client, request: Partial<RecoveryRequest>): Promise<string> {
  const body = { action: 'retry-release', filter: {}, reason: 'the disk is free again', ...request } as RecoveryRequest;
  const { operation } = await client.call('fleet-recover', { body });
  return operation?.workflow_id ?? '';
}

/** Checks that no target was acted on faster than the rate allows. */
export function expectPace(targets: Target[], per_minute: number): void {
  const actionTimes = targets.flatMap(({ acted_ms }) => acted_ms ?? []).sort((a, b) => a - b);
  const burst = Math.max(1, Math.floor(per_minute / 60));
  const slack = 1;
  for (const [later, at] of actionTimes.entries()) {
    const earlierMs = actionTimes[later - burst];
    if (earlierMs !== undefined && at - earlierMs < (burst * 60_000) / per_minute - slack)
      throw new Error(
        `action ${later + 1} came faster than ${per_minute} a minute: ${at - earlierMs} ms after action ${later - burst + 1}`,
      );
  }
}

/** Checks that no other target was touched before the canary recovered. */
export function expectCanaryFirst(targets: Target[]): void {
  const [canary, ...others] = targets;
  for (const { acted_ms } of others) expect(acted_ms ?? 0).toBeGreaterThanOrEqual(canary?.ended_ms ?? Infinity);
}
