/** One of many callers that allocate, act, cancel and release at random. */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions/actions.ts';
import type { Caller } from './caller.ts';

/** The prediction for an action, and the request that executed it. */
export interface Prediction {
  node_id: string;
  action: NodeActionName;
  correlation_id: string;
  predicted: string;
}

export interface Done {
  allocations: Set<string>;
  predictions: Prediction[];
  actions: Record<string, number>;
}

/**
 * Actions that end by themselves or can be undone; a forced release would leave residue for a
 * person to settle.
 */
const tryableActions: readonly NodeActionName[] = [
  'quarantine',
  'reactivate',
  'drain',
  'undrain',
  'retire',
  'extend-deadline',
];
const chances = { act: 0.5, cancel: 0.15, impatient: 0.3, repeat: 0.4 };
const longestWaitMs = 60_000;

export interface WorkerOptions {
  pool: string;
  id: string;
  endMs: number;
  random: () => number;
  done: Done;
}

export async function work(caller: Caller, { pool, id, endMs, random, done }: WorkerOptions): Promise<void> {
  const pick = (count: number) => Math.trunc(random() * count);
  const happens = (chance: number) => random() < chance;
  let requests = 0;

  /** Ends early if the allocation is over or the caller's patience runs out. */
  const waitUntilActive = async (params: { id: string }, patienceMs: number): Promise<string | null> => {
    const lateMs = systemClock.monotonicMs() + patienceMs;
    for (;;) {
      const seen = await caller.read('allocation-get', { params });
      if (!('reply' in seen)) return null;
      if (seen.reply.status === 'active') return seen.reply.node_id;
      if (seen.reply.status !== 'requested' && seen.reply.status !== 'provisioning') return seen.reply.node_id;
      if (systemClock.monotonicMs() > lateMs) return seen.reply.node_id;
      await pause(systemClock, 50 + 200 * random());
    }
  };
  const act = async (node_id: string): Promise<void> => {
    const action = tryableActions[pick(tryableActions.length)] as NodeActionName;
    const correlation_id = `${id}-act-${++requests}`;
    const body = { reason: 'at random', ...(action === 'extend-deadline' && { seconds: 60 }) };
    const acted = await caller.change('node-act', {
      params: { id: node_id, action },
      body,
      headers: { 'x-correlation-id': correlation_id },
    });
    const outcome = 'reply' in acted ? 'done' : acted.refused;
    done.actions[`${action}: ${outcome}`] = (done.actions[`${action}: ${outcome}`] ?? 0) + 1;
    if ('reply' in acted)
      done.predictions.push({ node_id, action, correlation_id, predicted: acted.reply.predicts.status });
  };

  while (systemClock.monotonicMs() < endMs) {
    const created = await caller.change('allocation-create', { body: { pool } });
    if (!('reply' in created)) {
      await pause(systemClock, 200);
      continue;
    }
    const { allocation, operation } = created.reply;
    const params = { id: allocation.allocation_id };
    done.allocations.add(allocation.allocation_id);
    if (operation && happens(chances.cancel))
      await caller.change('operation-cancel', { params: { id: operation.workflow_id } });
    const patienceMs = happens(chances.impatient) ? 1_000 * random() : longestWaitMs;
    const node_id = await waitUntilActive(params, patienceMs);
    if (node_id && happens(chances.act)) await act(node_id);
    await caller.change('allocation-release', { params });
    if (node_id && happens(chances.act)) await act(node_id);
    if (happens(chances.repeat)) await caller.repeatOne(pick);
  }
}
