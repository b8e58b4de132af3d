/**
 * `absence`: asks the provider about offline machines, and about failed ones without a known cause.
 * If an offline machine is certainly gone, moves its deadline to now, and `offline-deadline`
 * decides. If a failed machine has exited, adds the cause to its verdict.
 */
import { now as currentTime } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { recordLateCause } from '../../operations/release/freeze-evidence.ts';
import { readSubject, type Subject } from '../../operations/runtime/subject.ts';
import { findMachinesInDoubt, lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { amendNode } from '../../store/transitions/amend-node.ts';
import { moveDeadlines } from '../../store/transitions/deadlines.ts';
import { handleEach } from '../runner/handle-each.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 50;
/** The pause before the next inspection. A failed machine has its verdict already and can wait. */
const inspectAgainMs = { offline: 10_000, failed: 15_000 };

export function absence(services: SweepServices): Sweep {
  const { clock, db, drivers } = services;
  const notBeforeMs = new Map<NodeId, number>();
  return {
    name: 'absence',
    every_seconds: 5,
    isWokenBy: (kind) => kind === 'node.offline' || kind === 'node.failed',
    async run(now) {
      const launchingDrivers = [...drivers.values()].filter((driver) => driver.launches).map((driver) => driver.name);
      for (const [id, ms] of notBeforeMs) if (clock.monotonicMs() > ms) notBeforeMs.delete(id);
      const machines = await findMachinesInDoubt(db, launchingDrivers, now, batch, [...notBeforeMs.keys()]);
      let decided = 0;
      const failures = await handleEach(
        machines,
        (node) => node.node_id,
        async (node) => {
          notBeforeMs.set(
            node.node_id,
            clock.monotonicMs() + inspectAgainMs[node.status === 'failed' ? 'failed' : 'offline'],
          );
          if (await inspect(services, node)) decided++;
        },
      );
      if (failures.length > 0) throw new Error(`machines that could not be inspected: ${failures.join('; ')}`);
      return { decided, more: machines.length === batch };
    },
  };
}

async function inspect(services: SweepServices, node: NodeRow): Promise<boolean> {
  const subject = await readSubject(services, services.db, node.node_id, {
    workflow_id: null,
    correlation_id: node.correlation_id,
    allocation_id: null,
  });
  const { state, present: isPresent } = await subject.driver.inspect(subject.target);
  if (node.status === 'failed') return state === 'exited' && explainEnd(services, subject);
  if (!isPresent) return recordObservation(services, subject, state, 'the provider no longer shows the machine');
  const diagnosis = state === 'exited' ? await subject.driver.diagnose(subject.target) : undefined;
  return recordObservation(services, subject, state, diagnosis?.certain ? diagnosis.summary : null);
}

async function explainEnd(services: SweepServices, subject: Subject): Promise<boolean> {
  return recordLateCause(services, subject, await subject.driver.diagnose(subject.target));
}

/** `goneReason` says why the machine will not come back; null if it may. */
function recordObservation(
  services: SweepServices,
  subject: Subject,
  state: string,
  goneReason: string | null,
): Promise<boolean> {
  const at = currentTime(services.clock);
  return services.db.transaction(async (tx) => {
    let node = await lockNode(tx, subject.node.node_id);
    if (node?.status !== 'offline' || node.node_instance_id !== subject.node_instance_id) return false;
    const isKnown = node.observed_state === state && node.observed_at !== null && node.observed_at >= node.status_since;
    if (!isKnown) {
      const observed = { observed_state: state, observed_at: at };
      const summary = `the provider shows it as ${state}`;
      node = await amendNode(tx, node, observed, { at, layer: 'provider', kind: 'node.observed', summary });
    }
    if (goneReason === null) return false;
    const reason = `it will not come back: ${goneReason}`;
    const data = { observed: state };
    await moveDeadlines(tx, [{ node, deadline_at: at, reason, data }], { layer: 'provider' }, at);
    return true;
  });
}
