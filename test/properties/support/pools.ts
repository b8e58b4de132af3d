/**
 * The pools of the sequences. Their budgets and the time steps of the schedule are multiples of the
 * same few seconds, so that deadlines often coincide with other events.
 */
import type { PoolDocument } from '../../../src/contract/pool.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import { createExternalDriver } from '../../../src/drivers/external/external-driver.ts';
import type { Database } from '../../../src/store/pg/database.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { pickAt } from './random.ts';
import type { Sequence } from './sequences.ts';

/** Stands in for all drivers that launch machines. The sequences simulate the machines. */
export const yard: Driver = {
  ...createExternalDriver({ isRevoked: async () => true }),
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
const shortBudgets = { ...budgets, provision_seconds: 20, start_seconds: 10, rescue_seconds: 60, release_seconds: 20 };
const heartbeat = { interval_seconds: 10, stale_after_seconds: 30 };
const unreachableBrake = { fraction: 1, min_nodes: 1_000_000 };
const lowBrake = { fraction: 0.2, min_nodes: 5 };
const external = { driver: 'external', budgets, heartbeat, brake: unreachableBrake } satisfies PoolDocument;

export const sharedPools = {
  plain: external,
  'short-budgets': { ...external, budgets: shortBudgets },
  'progress-aware': { ...external, budgets: { ...budgets, progress_aware: true, silence_seconds: 20 } },
  prerequisites: {
    ...external,
    requires: [
      { name: 'disk', check: 'true' },
      { name: 'gpu', check: 'true' },
    ],
  },
  'observe-only': { ...external, mode: 'observe' },
  'toggled-mode': { ...external, mode: 'observe' },
  'low-brake': { ...external, budgets: shortBudgets, brake: lowBrake },
  'north-a': { ...external, zone: 'north' },
  'north-b': { ...external, zone: 'north', brake: lowBrake },
  agentless: { driver: 'yard', budgets, brake: unreachableBrake },
} as const satisfies Record<string, PoolDocument>;

export type SharedPool = keyof typeof sharedPools;

/** The pools that many sequences share and that machines join. */
export const commonPools = (Object.keys(sharedPools) as SharedPool[]).filter((name) => name !== 'agentless');

const privatePoolPrefix = 'private-';
export const privatePoolName = (index: number): string => `${privatePoolPrefix}${index}`;
export const isPrivatePool = (pool: string): boolean => pool.startsWith(privatePoolPrefix);

/**
 * The pool of one sequence alone, so that its allocations get only the machines of the sequence.
 */
export function privatePoolDocument({ index, life, variant }: Sequence): PoolDocument {
  return {
    name: privatePoolName(index),
    driver: life === 'launch-pool' ? 'yard' : 'external',
    // An allocation may wait long, because a machine has to join first.
    budgets: { ...pickAt([budgets, shortBudgets], variant), ...(life === 'join-pool' && { queue_seconds: 600 }) },
    heartbeat,
    brake: unreachableBrake,
    reuse: life === 'join-pool' || variant < 0.3,
  };
}

export async function declarePools(db: Database, sequences: readonly Sequence[], now: Date): Promise<void> {
  await db.transaction(async (tx) => {
    for (const [name, document] of Object.entries(sharedPools))
      await declarePool(tx, name, { ...document, name } as PoolDocument, now);
    const documents = sequences
      .filter(({ life }) => life === 'launch-pool' || life === 'join-pool')
      .map(privatePoolDocument);
    await tx.query(
      `insert into pools (name, driver, generation, created_at, updated_at)
       select document ->> 'name', document ->> 'driver', 1, $2, $2
       from jsonb_array_elements($1::jsonb) as list(document)`,
      [JSON.stringify(documents), now],
    );
    await tx.query(
      `insert into pool_generations (pool, generation, document, created_at)
       select document ->> 'name', 1, document, $2
       from jsonb_array_elements($1::jsonb) as list(document)`,
      [JSON.stringify(documents), now],
    );
  });
}

/** The secret of a pool's join token. */
export const joinSecret = (pool: string): string => `swj_${pool}`;
