/**
 * The pools of the sequences. Budgets and the steps of the schedule share a grid, so that deadlines
 * coincide with other events.
 */
import type { PoolDocument } from '../../../src/contract/pool.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import { createExternalDriver } from '../../../src/drivers/external/external-driver.ts';
import type { Database } from '../../../src/store/pg/database.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { at } from './random.ts';
import type { Sequence } from './sequences.ts';

/** Represents all drivers that launch machines. The sequences simulate the machines. */
export const yard: Driver = {
  ...createExternalDriver({ revoked: async () => true }),
  name: 'yard',
  launches: true,
  final_proof: 'absent',
};

const budgets = {
  queue_seconds: 60,
  provision_seconds: 60,
  start_seconds: 20,
  offline_seconds: 60,
  drain_seconds: 30,
  release_seconds: 60,
  rescue_seconds: 240,
};
const hasty = { ...budgets, provision_seconds: 20, start_seconds: 10, rescue_seconds: 60, release_seconds: 20 };
const heartbeat = { interval_seconds: 10, stale_after_seconds: 30 };
const neverBraked = { fraction: 1, min_nodes: 1_000_000 };
const soonBraked = { fraction: 0.2, min_nodes: 5 };
const external = { driver: 'external', budgets, heartbeat, brake: neverBraked } satisfies PoolDocument;

export const sharedPools = {
  plain: external,
  hasty: { ...external, budgets: hasty },
  advancing: { ...external, budgets: { ...budgets, progress_aware: true, silence_seconds: 20 } },
  requiring: {
    ...external,
    requires: [
      { name: 'disk', check: 'true' },
      { name: 'gpu', check: 'true' },
    ],
  },
  observed: { ...external, mode: 'observe' },
  toggled: { ...external, mode: 'observe' },
  braked: { ...external, budgets: hasty, brake: soonBraked },
  'north-a': { ...external, zone: 'north' },
  'north-b': { ...external, zone: 'north', brake: soonBraked },
  agentless: { driver: 'yard', budgets, brake: neverBraked },
} as const satisfies Record<string, PoolDocument>;

export type SharedPool = keyof typeof sharedPools;

/** Pools of machines that join, shared by many sequences. */
export const commonPools = (Object.keys(sharedPools) as SharedPool[]).filter((name) => name !== 'agentless');

export const ownPool = (index: number): string => `own-${index}`;

/** A pool for one sequence alone, so that its allocations get only its own machines. */
export function ownDocument({ index, life, flavour }: Sequence): PoolDocument {
  return {
    name: ownPool(index),
    driver: life === 'launched' ? 'yard' : 'external',
    // An allocation waits long for a machine that has to join first.
    budgets: { ...at([budgets, hasty], flavour), ...(life === 'brought' && { queue_seconds: 600 }) },
    heartbeat,
    brake: neverBraked,
    reuse: life === 'brought' || flavour < 0.3,
  };
}

export async function declarePools(db: Database, sequences: readonly Sequence[], now: Date): Promise<void> {
  await db.transaction(async (tx) => {
    for (const [name, document] of Object.entries(sharedPools))
      await declarePool(tx, name, { ...document, name } as PoolDocument, now);
    const own = sequences.filter(({ life }) => life === 'launched' || life === 'brought').map(ownDocument);
    await tx.query(
      `insert into pools (name, driver, generation, created_at, updated_at)
       select document ->> 'name', document ->> 'driver', 1, $2, $2
       from jsonb_array_elements($1::jsonb) as list(document)`,
      [JSON.stringify(own), now],
    );
    await tx.query(
      `insert into pool_generations (pool, generation, document, created_at)
       select document ->> 'name', 1, document, $2
       from jsonb_array_elements($1::jsonb) as list(document)`,
      [JSON.stringify(own), now],
    );
  });
}

/** The secret of a pool's join token. */
export const joinSecret = (pool: string): string => `swj_${pool}`;
