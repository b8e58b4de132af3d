/** What a machine says of the prerequisites its pool asks for. All met: it may become ready. One missing: it fails, and the verdict names it. */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { lockNode, type NodeRow } from '../rows/nodes.ts';
import { poolGeneration } from '../rows/pools.ts';
import { amendNode, fillAllocationIds } from '../transitions/amend-node.ts';
import { transition } from '../transitions/node-transition.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';

export interface CheckResult {
  name: string;
  ok: boolean;
  detail?: string;
}

interface Speaker {
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

/** Met only when every one of them was said to be; what nobody asked for is kept as evidence and decides nothing. */
function judge(asked: readonly { name: string }[], results: CheckResult[]): 'met' | 'missing' | 'unchecked' {
  const saidOf = (name: string) => results.filter((result) => result.name === name);
  if (asked.some(({ name }) => saidOf(name).some(({ ok }) => !ok))) return 'missing';
  return asked.every(({ name }) => saidOf(name).length > 0) ? 'met' : 'unchecked';
}

const note = (tx: Transaction, node: NodeRow, prerequisites: 'met' | 'missing', now: Date): Promise<NodeRow> =>
  amendNode(
    tx,
    node,
    { prerequisites },
    {
      at: now,
      layer: 'node',
      kind: 'node.prerequisites',
      summary: prerequisites === 'met' ? 'all its prerequisites are met' : 'a prerequisite is missing',
    },
  );

/** Where the report leaves the node. Undefined: another instance has taken this one's place. */
export function reportPrerequisites(
  db: Database,
  speaker: Speaker,
  results: CheckResult[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeStatus | undefined> {
  return db.transaction(async (tx) => {
    const node = await lockNode(tx, speaker.node_id);
    if (node?.node_instance_id !== speaker.node_instance_id) return undefined;
    const facts = factsOf(node, results, now);
    await fillAllocationIds(tx, facts);
    await recordEvidence(tx, facts);
    const asked = (await poolGeneration(tx, node.pool, node.pool_generation))?.requires ?? [];
    const found = judge(asked, results);
    if (asked.length === 0 || found === 'unchecked' || found === node.prerequisites) return node.status;
    // Before `ready` it decides; afterwards it is what the machine says, and kept as that.
    if (found === 'missing' && node.status !== 'starting') return node.status;
    const noted = await note(tx, node, found, now);
    const missing = results.filter((result) => !result.ok && asked.some(({ name }) => name === result.name));
    if (found === 'met') return promoteIfSaid(tx, noted, now, environment);
    const names = missing.map(({ name }) => name).join(', ');
    const [outcome] = await transition(
      tx,
      [
        {
          ...speaker,
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

/** It may have said ready before its prerequisites were known; it does not have to say so again. */
async function promoteIfSaid(
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
