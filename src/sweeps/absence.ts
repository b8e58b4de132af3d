/**
 * `absence`: asks the provider about machines that fell silent. One that the provider shows nothing of any more will not come
 * back by waiting: its deadline is now, and `offline-deadline` decides. It decides nothing itself.
 */
import { now as present } from '../base/clock.ts';
import { readSubject, type Subject } from '../operations/subject.ts';
import { amendNode } from '../store/amend-node.ts';
import { moveDeadlines } from '../store/deadlines.ts';
import { lockNode, type NodeRow, offlineNodes } from '../store/nodes.ts';
import type { SweepServices } from './services.ts';
import type { Sweep } from './sweep.ts';

const batch = 50;
const lookAgainSeconds = 10;

export const absence = (services: SweepServices): Sweep => ({
  name: 'absence',
  every_seconds: 5,
  woken_by: (kind) => kind === 'node.offline',
  async run(now) {
    const launching = [...services.drivers.values()].filter((driver) => driver.launches).map((driver) => driver.name);
    const silent = await offlineNodes(services.db, launching, now, lookAgainSeconds, batch);
    let decided = 0;
    for (const node of silent) if (await look(services, node)) decided++;
    return { decided };
  },
});

async function look(services: SweepServices, node: NodeRow): Promise<boolean> {
  const nobody = { workflow_id: null, correlation_id: node.correlation_id, allocation_id: null };
  const subject = await readSubject(services, services.db, node.node_id, nobody as never);
  const seen = await subject.driver.observe(subject.target);
  return keep(services, subject, seen.state, !seen.present);
}

function keep(services: SweepServices, subject: Subject, state: string, absent: boolean): Promise<boolean> {
  const at = present(services.clock);
  return services.db.transaction(async (tx) => {
    const node = await lockNode(tx, subject.node.node_id);
    if (node?.status !== 'offline' || node.node_instance_id !== subject.node_instance_id) return false;
    const observed = { observed_state: state, observed_at: at };
    const summary = `the provider shows it as ${state}`;
    const seen = await amendNode(tx, node, observed, { at, layer: 'provider', kind: 'node.observed', summary });
    if (!absent) return false;
    const reason = 'the provider shows nothing of it any more, so it will not come back';
    await moveDeadlines(
      tx,
      [{ node: seen, deadline_at: at, reason, data: { observed: state } }],
      { layer: 'provider' },
      at,
    );
    return true;
  });
}
