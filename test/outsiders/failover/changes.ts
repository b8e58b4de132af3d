/**
 * Callers that change something all the time: workers allocate and release machines, and an
 * operator acts on nodes and declares pools. Every acknowledged change is recorded, so that it can
 * be looked for after a failover.
 */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Client } from '../../../src/contract/client.ts';
import { type CallLog, createCaller } from '../random-calls/caller.ts';

export interface AcknowledgedChanges {
  created: Set<string>;
  released: Set<string>;
  /** Correlation ids of actions on nodes. */
  actions: Set<string>;
  pools: Set<string>;
  /** When the last change was acknowledged, by the monotonic clock. */
  lastMs: number;
}

export const countChanges = ({ created, released, actions, pools }: AcknowledgedChanges): number =>
  created.size + released.size + actions.size + pools.size;

export interface Changes {
  acknowledged: AcknowledgedChanges;
  log: CallLog;
  /** Refusals. The callers use different objects, so none is expected. */
  refusals: string[];
  /** Resolves when each worker has released its last allocation. */
  stop(): Promise<void>;
}

interface ChangeOptions {
  client: Client;
  pool: string;
  workers: number;
  /** A worker keeps its allocation for up to this long. */
  max_hold_seconds: number;
  /** The operator takes these nodes out of service and returns them. */
  nodes: readonly string[];
  action_every_ms: number;
}

const pollMs = 500;

export function startChanges(options: ChangeOptions): Changes {
  const { client, pool, workers, max_hold_seconds, nodes, action_every_ms } = options;
  const acknowledged: AcknowledgedChanges = {
    created: new Set(),
    released: new Set(),
    actions: new Set(),
    pools: new Set(),
    lastMs: 0,
  };
  const log: CallLog = { calls: 0, repeats: 0, failures: [], mismatches: [] };
  const refusals: string[] = [];
  let isStopped = false;
  const callerOf = (id: string) =>
    createCaller(
      () => [client],
      () => 0,
      log,
      id,
    );
  const acknowledge = (changes: Set<string>, id: string) => {
    changes.add(id);
    acknowledged.lastMs = systemClock.monotonicMs();
  };

  const work = async (index: number) => {
    const caller = callerOf(`worker-${index}`);
    const waitFor = async (params: { id: string }, statuses: readonly string[]) => {
      for (;;) {
        const answer = await caller.read('allocation-get', { params });
        if (!('reply' in answer)) return refusals.push(`allocation-get: ${answer.refused}`);
        if (statuses.includes(answer.reply.status)) return;
        await pause(systemClock, pollMs * (0.5 + Math.random()));
      }
    };
    // The workers start one after another, so that they are in different phases.
    await pause(systemClock, 500 * max_hold_seconds * (index / workers));
    while (!isStopped) {
      const answer = await caller.change('allocation-create', { body: { pool } });
      if (!('reply' in answer)) {
        refusals.push(`allocation-create: ${answer.refused}`);
        return;
      }
      const params = { id: answer.reply.allocation.allocation_id };
      acknowledge(acknowledged.created, params.id);
      await waitFor(params, ['active', 'failed']);
      const holdUntilMs = systemClock.monotonicMs() + 1000 * max_hold_seconds * Math.random();
      while (!isStopped && systemClock.monotonicMs() < holdUntilMs) await pause(systemClock, pollMs);
      const release = await caller.change('allocation-release', { params });
      if ('reply' in release) acknowledge(acknowledged.released, params.id);
      else refusals.push(`allocation-release: ${release.refused}`);
      await waitFor(params, ['released', 'release_failed']);
    }
  };

  const operate = async () => {
    const caller = callerOf('operator');
    for (let turn = 0; !isStopped; turn++) {
      const id = nodes[Math.trunc(turn / 2) % nodes.length] ?? '';
      const action = turn % 2 === 0 ? 'quarantine' : 'reactivate';
      const correlation_id = `operator-${turn}`;
      const acted = await caller.change('node-act', {
        params: { id, action },
        body: { reason: 'a failover test' },
        headers: { 'x-correlation-id': correlation_id },
      });
      if ('reply' in acted) acknowledge(acknowledged.actions, correlation_id);
      else refusals.push(`${action}: ${acted.refused}`);
      const name = `declared-${turn}`;
      const declared = await caller.change('pool-put', { params: { pool: name }, body: { driver: 'external' } });
      if ('reply' in declared) acknowledge(acknowledged.pools, name);
      else refusals.push(`pool-put: ${declared.refused}`);
      await pause(systemClock, action_every_ms);
    }
  };

  const running = Promise.all([operate(), ...Array.from({ length: workers }, (_, index) => work(index))]);
  // A failure shows in `stop`; until then it must not end the process.
  running.catch(() => {});
  return {
    acknowledged,
    log,
    refusals,
    async stop() {
      isStopped = true;
      await running;
    },
  };
}
