/** One of many who allocate, act, cancel and release at random. */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions/actions.ts';
import type { Caller } from './caller.ts';

/** What somebody was told would come of an action, and the request that did it. */
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

/** Those that end by themselves or can be taken back; forced releases leave residue for a person to settle. */
const tried: readonly NodeActionName[] = ['quarantine', 'reactivate', 'drain', 'undrain', 'retire', 'extend-deadline'];
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

  /** Ends early where the allocation is over, or its caller loses patience. */
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
    const action = tried[pick(tried.length)] as NodeActionName;
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
    const asked = await caller.change('allocation-create', { body: { pool } });
    if (!('reply' in asked)) {
      await pause(systemClock, 200);
      continue;
    }
    const { allocation, operation } = asked.reply;
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
