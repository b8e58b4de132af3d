/** A worker allocates, cancels, acts on nodes and releases at random, until the end of the run. */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions/actions.ts';
import type { Caller } from './caller.ts';

/** The node status that an action predicted, and the request that executed the action. */
export interface Prediction {
  node_id: string;
  action: NodeActionName;
  correlation_id: string;
  predicted: string;
}

/** All workers of a run add to one record. */
export interface RunRecord {
  allocations: Set<string>;
  predictions: Prediction[];
  /** How often each action had each outcome. */
  actions: Record<string, number>;
}

/**
 * The clean-up can deal with the effects of these actions. A forced release would leave residue
 * that only a person can settle.
 */
const randomActions: readonly NodeActionName[] = [
  'quarantine',
  'reactivate',
  'drain',
  'undrain',
  'retire',
  'extend-deadline',
];
const chances = { act: 0.5, cancel: 0.15, closedAction: 0.2, impatient: 0.3, repeat: 0.4 };
const maxWaitMs = 60_000;

export interface WorkerOptions {
  pool: string;
  id: string;
  endMs: number;
  random: () => number;
  record: RunRecord;
}

export async function runWorker(caller: Caller, { pool, id, endMs, random, record }: WorkerOptions): Promise<void> {
  const pick = (count: number) => Math.trunc(random() * count);
  const happens = (chance: number) => random() < chance;
  let requests = 0;

  /**
   * Waits until the allocation is active or has ended, for at most `patienceMs`. Returns its node,
   * if it has one.
   */
  const waitUntilActive = async (params: { id: string }, patienceMs: number): Promise<string | null> => {
    const giveUpMs = systemClock.monotonicMs() + patienceMs;
    for (;;) {
      const answer = await caller.read('allocation-get', { params });
      if (!('reply' in answer)) return null;
      const { status, node_id } = answer.reply;
      if (status !== 'requested' && status !== 'provisioning') return node_id;
      if (systemClock.monotonicMs() > giveUpMs) return node_id;
      await pause(systemClock, 50 + 200 * random());
    }
  };
  /** Picks an action that the node's status allows, and now and then one that may be refused. */
  const pickAction = async (node_id: string): Promise<NodeActionName> => {
    const answer = await caller.read('node-actions', { params: { id: node_id } });
    const openActions =
      'reply' in answer ? answer.reply.items.filter(({ open }) => open).map((item) => item.action) : [];
    const allowedActions = randomActions.filter((action) => openActions.includes(action));
    const actions = allowedActions.length === 0 || happens(chances.closedAction) ? randomActions : allowedActions;
    return actions[pick(actions.length)] as NodeActionName;
  };
  const act = async (node_id: string): Promise<void> => {
    const action = await pickAction(node_id);
    const correlation_id = `${id}-act-${++requests}`;
    const body = { reason: 'random action', ...(action === 'extend-deadline' && { seconds: 60 }) };
    const answer = await caller.change('node-act', {
      params: { id: node_id, action },
      body,
      headers: { 'x-correlation-id': correlation_id },
    });
    const outcome = `${action}: ${'reply' in answer ? 'done' : answer.refused}`;
    record.actions[outcome] = (record.actions[outcome] ?? 0) + 1;
    if ('reply' in answer)
      record.predictions.push({ node_id, action, correlation_id, predicted: answer.reply.predicts.status });
  };

  while (systemClock.monotonicMs() < endMs) {
    const createReply = await caller.change('allocation-create', { body: { pool } });
    if (!('reply' in createReply)) {
      await pause(systemClock, 200);
      continue;
    }
    const { allocation, operation } = createReply.reply;
    const params = { id: allocation.allocation_id };
    record.allocations.add(allocation.allocation_id);
    if (operation && happens(chances.cancel))
      await caller.change('operation-cancel', { params: { id: operation.workflow_id } });
    const patienceMs = happens(chances.impatient) ? 1_000 * random() : maxWaitMs;
    const node_id = await waitUntilActive(params, patienceMs);
    if (node_id && happens(chances.act)) await act(node_id);
    await caller.change('allocation-release', { params });
    if (node_id && happens(chances.act)) await act(node_id);
    if (happens(chances.repeat)) await caller.repeatOne();
  }
}
