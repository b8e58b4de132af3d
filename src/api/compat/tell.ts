/** What their clients say of themselves becomes evidence of the node: bounded, redacted by the store, and once as long as it is the same. */
import { createHash } from 'node:crypto';
import { now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import { nameAllocations } from '../../store/amend-node.ts';
import { recordEvidence } from '../../store/evidence.ts';
import type { DoorServices } from './calls.ts';
import { keptFields } from './kept-fields.ts';

const mostBytes = 16 * 1024;

interface Said {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  correlation_id: CorrelationId;
  kind: 'client.registered' | 'client.said';
  summary: string;
  said: Record<string, unknown>;
  /** By what it is known to be the same as before. */
  same: unknown;
}

export async function tellSaid(services: DoorServices, { said, same, ...fact }: Said): Promise<void> {
  const print = createHash('sha256').update(canonicalJson(same)).digest('base64');
  if (!services.toldOnce({ actor: fact.node_instance_id, what: `${fact.kind} ${print}`, target: null })) return;
  const facts = [
    { ...fact, at: now(services.clock), layer: 'node' as const, data: { said: keptFields(said, mostBytes) } },
  ];
  // Whose machine it is, the row knows: what is said belongs to the tenant that holds it now.
  await services.db.transaction(async (tx) => {
    await nameAllocations(tx, facts);
    await recordEvidence(tx, facts);
  });
}
