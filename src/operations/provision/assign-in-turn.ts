/**
 * Whoever wants a machine of a pool comes to its counter. It serves one lot at a time: all who came while the one before was served
 * are served by one transaction, and wait without holding a connection.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, settledAnswer } from '../../base/batching/bisect.ts';
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { lockAsExecutor, lockManyAsExecutor } from '../../store/operations/executions.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type Assignment, assignNode, assignNodes } from './assign-node.ts';

export interface Ask {
  workflow_id: WorkflowId;
  /** One that is tried again may have a machine to replace, which it locks: it comes alone. */
  retries: boolean;
}

type Settled = PromiseSettledResult<Assignment>;

const limits = { max_keys: 100, max_concurrent: 1 };

const isAway = (error: unknown) => error instanceof StoreUnavailable;

/** Undefined for whoever somebody else had locked just then. */
const together = (services: OperationServices, asks: readonly Ask[]): Promise<(Assignment | undefined)[]> =>
  services.db.transaction(async (tx) => {
    const ids = asks.map(({ workflow_id }) => workflow_id);
    const operations = await lockManyAsExecutor(tx, ids, services.executor);
    const answers = await assignNodes(tx, services, operations, now(services.clock));
    const byId = new Map(operations.map(({ workflow_id }, place) => [workflow_id, answers[place]]));
    return ids.map((id) => byId.get(id));
  });

const alone = (services: OperationServices, { workflow_id }: Ask): Promise<Assignment> =>
  services.db.transaction(async (tx) =>
    assignNode(tx, services, await lockAsExecutor(tx, workflow_id, services.executor), now(services.clock)),
  );

async function serve(services: OperationServices, asks: Ask[]): Promise<Settled[]> {
  const plain = asks.filter(({ retries }) => !retries);
  const answers = await bisect(plain, (some) => together(services, some), isAway);
  const known = new Map(plain.map((ask, place) => [ask, answers[place]]));
  const settled: Settled[] = [];
  for (const ask of asks) {
    const answer = known.get(ask);
    if (answer?.status === 'rejected') settled.push(answer);
    else if (answer?.value) settled.push({ status: 'fulfilled', value: answer.value });
    else settled.push(...(await bisect([ask], async () => [await alone(services, ask)], isAway)));
  }
  return settled;
}

export function assignInTurn(services: OperationServices): (pool: string, ask: Ask) => Promise<Assignment> {
  const counters = new Map<string, (ask: Ask) => Promise<Settled>>();
  return async (pool, ask) => {
    const counter = counters.get(pool) ?? createBatcher((asks: Ask[]) => serve(services, asks), limits);
    counters.set(pool, counter);
    return settledAnswer(await counter(ask));
  };
}
