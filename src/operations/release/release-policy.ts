/** The effect of a pool's policy on a release and its machine. */
import type { PoolDocument } from '../../contract/pool.ts';
import type { RetryPolicy } from '../../engine/engine.ts';
import type { ActionSubject } from '../../lifecycle/actions/actions.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';

/**
 * Retries of a step within one release, with short pauses. After a failed release, the rule
 * `release-retry` starts the next one after a longer pause.
 */
export const releasePolicy = (pool: PoolDocument): RetryPolicy => ({
  tries: pool.release?.step_tries ?? 3,
  base_seconds: Math.min(pool.release?.retry_base_seconds ?? 30, 1),
  max_seconds: pool.release?.retry_max_seconds ?? 900,
});

/** Describes the effect of a release on the machine, for the person who is about to request it. */
export function releaseEffect(machine: Pick<ActionSubject, 'status' | 'reuse' | 'external'> | null): string {
  if (!machine) return 'it has no machine, so nothing is torn down; it is released';
  const isQuarantined = machine.status === 'quarantined';
  if (machine.reuse) {
    const next = isQuarantined ? 'stays quarantined' : 'becomes free for the next tenant';
    const ifAgentIsSilent = machine.external
      ? 'the release fails and is retried, because no driver can tear down an external machine'
      : 'the machine is torn down instead';
    return `its machine is cleaned, proven clean by its agent, and ${next}; if its agent is silent, ${ifAgentIsSilent}`;
  }
  return isQuarantined
    ? 'its machine is torn down with proof and retired: it is quarantined now, and afterwards nothing is left to inspect'
    : 'its machine is torn down with proof and retired';
}

/**
 * The transition of a reused machine that is proven clean: to ready, or to quarantined if it was
 * drained to hold.
 */
export function movesWhenClean({ node_id, status, drain_then }: NodeRow): NodeMove[] {
  // An operator quarantined the node during the cleanup, so it stays quarantined.
  if (status === 'quarantined') return [];
  const reason = 'proven clean; it was drained to be quarantined';
  return drain_then === 'hold'
    ? [{ node_id, to: 'quarantined', by: 'quarantine', reason }]
    : [{ node_id, to: 'ready', by: 'proof', reason: 'proven clean, free again' }];
}
