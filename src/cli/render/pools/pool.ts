/** Pools as a person reads them. */
import type { Pool } from '../../../contract/pool.ts';
import { ageSince } from '../text/duration.ts';
import type { Column } from '../text/table.ts';

const stateOf = (pool: Pool) => (pool.paused ? 'paused' : pool.mode === 'observe' ? 'observing' : 'open');

export const poolColumns = (nowMs: number): Column<Pool>[] => [
  { title: 'POOL', value: (pool) => pool.name },
  { title: 'DRIVER', value: (pool) => pool.driver },
  { title: 'STATE', value: stateOf, tone: (pool) => (stateOf(pool) === 'open' ? 'good' : 'warn') },
  { title: 'LIVE', value: (pool) => String(pool.nodes.live), align: 'right' },
  { title: 'FREE', value: (pool) => String(pool.nodes.free), align: 'right' },
  { title: 'MAX', value: (pool) => String(pool.max_nodes ?? ''), align: 'right', optional: true },
  { title: 'GENERATION', value: (pool) => String(pool.generation), align: 'right', drop: 2 },
  { title: 'CHANGED', value: (pool) => ageSince(pool.updated_at, nowMs), align: 'right', drop: 1 },
];
