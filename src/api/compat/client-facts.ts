/** What their clients say of themselves becomes evidence of the node: bounded, redacted by the store, and once as long as it is the same. */
import { createHash } from 'node:crypto';
import { now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { instanceWriter } from '../limits/quotas/writers.ts';
import type { ProtocolCall, ProtocolServices } from './calls.ts';
import { fieldsBeside, keptFields } from './kept-fields.ts';

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

export async function tellSaid(services: ProtocolServices, { said, same, ...fact }: Said): Promise<void> {
  const print = createHash('sha256').update(canonicalJson(same)).digest('base64');
  const notice = { actor: fact.node_instance_id, what: `${fact.kind} ${print}`, target: null };
  const entry = services.toldOnce(notice);
  if (!entry) return;
  const facts = [
    { ...fact, at: now(services.clock), layer: 'node' as const, data: { said: keptFields(said, mostBytes) } },
  ];
  // Whose machine it is, the row knows: what is said belongs to the tenant that holds it now.
  const isRecorded = await services.outside.record(instanceWriter(fact), facts, fillAllocationIds);
  if (!isRecorded) services.toldOnce.undo(notice, entry);
}

/** Which sets of fields each session was told to say; a client that keeps changing them is not followed for ever. */
const toldFields = new WeakMap<AgentSession, Set<string>>();
const mostFieldSets = 8;

/** Fields that their protocol does not have, as it is known here, are told when they first come; their values go with the beats. */
export async function tellNewFields(
  services: ProtocolServices,
  session: AgentSession,
  { body, correlation_id }: ProtocolCall,
  known: readonly string[],
): Promise<void> {
  const said = fieldsBeside(body, known);
  const names = Object.keys(said).sort().join(', ');
  const told = toldFields.get(session) ?? new Set();
  if (names === '' || told.has(names) || told.size >= mostFieldSets) return;
  toldFields.set(session, told.add(names));
  const { node_id, node_instance_id } = session;
  const summary = `its beats say what is not read here: ${names.slice(0, 200)}`;
  const ids = { node_id, node_instance_id, correlation_id };
  await tellSaid(services, { ...ids, kind: 'client.said', summary, said, same: names });
}
