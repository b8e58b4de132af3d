/**
 * `drift`: finds disagreements between our rows, their evidence and the machines. The comparisons
 * run before the transaction. A disagreement in two passes is a finding. If the pool's policy says
 * so, the rule then repairs or quarantines the node, unless the brake holds or the pool is
 * observe-only.
 */
import { retireIn } from '../../operations/release/node-retire.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { settleFinding } from '../../store/rows/findings.ts';
import type { JudgedNode } from '../../store/rows/judged.ts';
import { readGenerationDocuments } from '../../store/rows/pools.ts';
import { countDriftedNodes, type DriftedNode, lockDriftedNodes } from '../../store/supervision/drifted-nodes.ts';
import { writeVerdicts } from '../../store/transitions/bulk/verdicts.ts';
import { restoreRow } from '../../store/transitions/restore-rows.ts';
import { recordWouldHave, toObservedMove } from '../../store/transitions/would-have.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { type Verdict, verdictSweep } from '../runner/verdict-sweep.ts';
import { createMachineComparison } from './compare-machines.ts';
import { createProofComparison } from './compare-proofs.ts';
import { createRowComparison } from './compare-rows.ts';

const batch = 100;

interface DriftVerdict extends Verdict {
  node: DriftedNode;
}

const reasons: Record<DriftedNode['what'], (node: DriftedNode) => string> = {
  machine_absent: () => 'drift: its provider no longer shows the machine',
  row_differs: ({ ours, theirs }) =>
    `drift: its row says ${JSON.stringify(ours)}, its evidence ${JSON.stringify(theirs)}`,
};

/**
 * Under the policy `quarantine` every node is quarantined. Otherwise a node whose row differs gets
 * the status in its evidence, and a node whose machine is missing is torn down, with proof.
 */
function destinationOf({ policy, what, status, theirs }: DriftedNode): JudgedNode['status'] {
  if (policy === 'quarantine') return 'quarantined';
  return what === 'machine_absent' ? 'cleaning' : ((theirs.status ?? status) as JudgedNode['status']);
}

const verdictOn = (node: DriftedNode): DriftVerdict => ({
  node,
  to: destinationOf(node),
  reason: reasons[node.what](node),
  due_at: node.opened_at,
  data: { finding_id: node.finding_id, what: node.what, ours: node.ours, theirs: node.theirs },
});

/** Keeps one finding per node, the first; the next pass handles the others. */
const keepFirstPerNode = (nodes: DriftedNode[]): DriftedNode[] => [
  ...new Map(nodes.toReversed().map((node) => [node.node_id, node])).values(),
];

async function repair(
  tx: Transaction,
  services: SweepServices,
  { node, to, reason, data }: DriftVerdict,
  now: Date,
): Promise<boolean> {
  const settlement = { status: 'repaired', reason: 'by the policy of its pool', actor: null } as const;
  if (node.what === 'machine_absent') {
    const cause = { by: 'drift' as const, reason, data };
    const retirement = await retireIn(tx, services, node, cause, now);
    if (retirement) await settleFinding(tx, node.finding_id, settlement, now);
    return retirement !== undefined;
  }
  const { decide } = services.environment;
  const document = (await readGenerationDocuments(tx, [node])).get(`${node.pool} ${node.pool_generation}`);
  if (decide.isObserveOnly('drift', 'rule', document?.mode)) {
    await recordWouldHave(
      tx,
      [toObservedMove(node, { node_id: node.node_id, to, by: 'drift', reason, data }, now)],
      now,
    );
    return false;
  }
  await restoreRow(tx, { table: 'nodes', id: node.node_id, reason: settlement.reason, actor: null }, now);
  await settleFinding(tx, node.finding_id, settlement, now);
  return true;
}

export function drift(services: SweepServices): Sweep {
  const { environment } = services;
  const compareMachines = createMachineComparison(services);
  const compareRows = createRowComparison(services);
  const compareProofs = createProofComparison(services);
  return verdictSweep(services, {
    name: 'drift',
    get every_seconds() {
      return environment.drift.every_seconds;
    },
    isWokenBy: (kind) => kind === 'node.held_over',
    batch,
    async prepare(now) {
      await compareMachines(now);
      await compareRows(now);
      await compareProofs(now);
    },
    async find(tx, now, limit, except) {
      return keepFirstPerNode(await lockDriftedNodes(tx, now, limit, except)).map(verdictOn);
    },
    countOthers: countDriftedNodes,
    async apply(tx, verdicts, now) {
      const driftVerdicts = verdicts as DriftVerdict[];
      const quarantines = driftVerdicts.filter(({ node }) => node.policy === 'quarantine');
      const { moved } = await writeVerdicts(tx, 'drift', quarantines, now, environment);
      const repaired: JudgedNode[] = [];
      for (const verdict of driftVerdicts)
        if (verdict.node.policy === 'repair' && (await repair(tx, services, verdict, now))) repaired.push(verdict.node);
      return [...moved, ...repaired];
    },
  });
}
