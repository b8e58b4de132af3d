/**
 * Records an agent's results for the prerequisites of its pool. If all are met, the node may become
 * ready. If one is missing, a starting node fails, and the verdict names the prerequisite.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { lockNode, type NodeRow } from '../rows/nodes.ts';
import { readGenerationDocument } from '../rows/pools.ts';
import { amendNode, fillAllocationIds } from '../transitions/amend-node.ts';
import { transition } from '../transitions/node-transition.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';

export interface CheckResult {
  name: string;
  ok: boolean;
  detail?: string;
}

interface Reporter {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
}

const factsOf = (node: NodeRow, results: CheckResult[], now: Date): Fact[] =>
  results.map(({ name, ok, detail }) => ({
    at: now,
    layer: 'node',
    kind: ok ? 'prerequisite.met' : 'prerequisite.missing',
    summary: `prerequisite ${name} is ${ok ? 'met' : 'missing'}${detail ? `: ${detail}` : ''}`,
    data: { name, ok, ...(detail && { detail }) },
    node_id: node.node_id,
    node_instance_id: node.node_instance_id,
    correlation_id: node.correlation_id,
    workflow_id: node.workflow_id,
  }));

/** Ignores results that the pool does not require. They are recorded only as evidence. */
function judgeResults(required: readonly { name: string }[], results: CheckResult[]): 'met' | 'missing' | 'unchecked' {
  const resultsFor = (name: string) => results.filter((result) => result.name === name);
  if (required.some(({ name }) => resultsFor(name).some(({ ok }) => !ok))) return 'missing';
  return required.every(({ name }) => resultsFor(name).length > 0) ? 'met' : 'unchecked';
}

const storePrerequisites = (
  tx: Transaction,
  node: NodeRow,
  prerequisites: 'met' | 'missing',
  now: Date,
): Promise<NodeRow> =>
  amendNode(
    tx,
    node,
    { prerequisites },
    {
      at: now,
      layer: 'node',
      kind: 'node.prerequisites',
      summary: prerequisites === 'met' ? 'all prerequisites are met' : 'a prerequisite is missing',
    },
  );

/** Returns the node's status after the report; undefined if the node has another instance now. */
export function reportPrerequisites(
  db: Database,
  reporter: Reporter,
  results: CheckResult[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeStatus | undefined> {
  return db.transaction(async (tx) => {
    const node = await lockNode(tx, reporter.node_id);
    if (node?.node_instance_id !== reporter.node_instance_id) return undefined;
    const facts = factsOf(node, results, now);
    await fillAllocationIds(tx, facts);
    await recordEvidence(tx, facts);
    const required = (await readGenerationDocument(tx, node.pool, node.pool_generation))?.requires ?? [];
    const prerequisites = judgeResults(required, results);
    if (required.length === 0 || prerequisites === 'unchecked' || prerequisites === node.prerequisites)
      return node.status;
    // A prerequisite that goes missing after start-up is recorded as evidence only.
    if (prerequisites === 'missing' && node.status !== 'starting') return node.status;
    const updated = await storePrerequisites(tx, node, prerequisites, now);
    if (prerequisites === 'met') return promoteIfReportedReady(tx, updated, now, environment);
    const missing = results.filter((result) => !result.ok && required.some(({ name }) => name === result.name));
    const names = missing.map(({ name }) => name).join(', ');
    const [outcome] = await transition(
      tx,
      [
        {
          ...reporter,
          from: ['starting'],
          to: 'failed',
          by: 'prerequisite-missing',
          reason: `prerequisite_missing: ${names}${missing[0]?.detail ? ` (${missing[0].detail})` : ''}`,
          data: { code: 'prerequisite_missing', missing },
        },
      ],
      now,
      environment,
    );
    return outcome?.moved ? outcome.node.status : node.status;
  });
}

/**
 * Promotes a node that reported ready before its prerequisites were met. Its agent does not repeat
 * the report.
 */
async function promoteIfReportedReady(
  tx: Transaction,
  node: NodeRow,
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeStatus> {
  const { node_id, reported_status, status } = node;
  if (status !== 'starting' || reported_status !== 'ready') return status;
  const reason = 'the node reported ready, and its prerequisites are met';
  const [outcome] = await transition(tx, [{ node_id, to: 'ready', by: 'claim-ready', reason }], now, environment);
  return outcome?.moved ? outcome.node.status : status;
}
