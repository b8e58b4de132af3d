/**
 * `absence`: asks the provider about machines that fell silent. If the machine is gone or has
 * exited for certain, its deadline moves to now, and `offline-deadline` decides. For a machine that
 * failed without a known cause, the cause is added to its verdict. Decides nothing itself.
 */
import { now as present } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { recordLateCause } from '../../operations/release/freeze-evidence.ts';
import { readSubject, type Subject } from '../../operations/runtime/subject.ts';
import { lockNode, machinesInDoubt, type NodeRow } from '../../store/rows/nodes.ts';
import { amendNode } from '../../store/transitions/amend-node.ts';
import { moveDeadlines } from '../../store/transitions/deadlines.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 50;
/** A failed machine is already decided on, so it is inspected less often. */
const inspectAgainMs = { offline: 10_000, failed: 15_000 };

export function absence(services: SweepServices): Sweep {
  const { clock, db, drivers } = services;
  const againMs = new Map<NodeId, number>();
  return {
    name: 'absence',
    every_seconds: 5,
    woken_by: (kind) => kind === 'node.offline' || kind === 'node.failed',
    async run(now) {
      const launching = [...drivers.values()].filter((driver) => driver.launches).map((driver) => driver.name);
      for (const [id, ms] of againMs) if (clock.monotonicMs() > ms) againMs.delete(id);
      const doubted = await machinesInDoubt(db, launching, now, batch, [...againMs.keys()]);
      let decided = 0;
      for (const node of doubted) {
        againMs.set(
          node.node_id,
          clock.monotonicMs() + inspectAgainMs[node.status === 'failed' ? 'failed' : 'offline'],
        );
        if (await inspect(services, node)) decided++;
      }
      return { decided, more: doubted.length === batch };
    },
  };
}

async function inspect(services: SweepServices, node: NodeRow): Promise<boolean> {
  const subject = await readSubject(services, services.db, node.node_id, {
    workflow_id: null,
    correlation_id: node.correlation_id,
    allocation_id: null,
  });
  const { state, present: there } = await subject.driver.observe(subject.target);
  if (node.status === 'failed') return state === 'exited' && explainEnd(services, subject);
  if (!there) return recordObservation(services, subject, state, 'the provider shows nothing of it any more');
  const ended = state === 'exited' ? await subject.driver.diagnose(subject.target) : undefined;
  return recordObservation(services, subject, state, ended?.certain ? ended.summary : null);
}

async function explainEnd(services: SweepServices, subject: Subject): Promise<boolean> {
  return recordLateCause(services, subject, await subject.driver.diagnose(subject.target));
}

/** `gone` is the reason why the machine will not come back; null if it may. */
function recordObservation(
  services: SweepServices,
  subject: Subject,
  state: string,
  gone: string | null,
): Promise<boolean> {
  const at = present(services.clock);
  return services.db.transaction(async (tx) => {
    let node = await lockNode(tx, subject.node.node_id);
    if (node?.status !== 'offline' || node.node_instance_id !== subject.node_instance_id) return false;
    const known = node.observed_state === state && node.observed_at !== null && node.observed_at >= node.status_since;
    if (!known) {
      const observed = { observed_state: state, observed_at: at };
      const summary = `the provider shows it as ${state}`;
      node = await amendNode(tx, node, observed, { at, layer: 'provider', kind: 'node.observed', summary });
    }
    if (gone === null) return false;
    const reason = `it will not come back: ${gone}`;
    const data = { observed: state };
    await moveDeadlines(tx, [{ node, deadline_at: at, reason, data }], { layer: 'provider' }, at);
    return true;
  });
}
