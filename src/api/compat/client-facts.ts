/**
 * Records what foreign clients report about themselves as evidence of the node: bounded, redacted
 * by the store, and once as long as it stays the same.
 */
import { createHash } from 'node:crypto';
import { now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { instanceWriter } from '../limits/quotas/writers.ts';
import type { ProtocolCall, ProtocolServices } from './calls.ts';
import { fieldsExcept, keptFields } from './kept-fields.ts';

const maxBytes = 16 * 1024;

interface ClientFact {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  correlation_id: CorrelationId;
  kind: 'client.registered' | 'client.said';
  summary: string;
  said: Record<string, unknown>;
  /** Compared to detect a repeat. */
  same: unknown;
}

export async function recordClientFact(services: ProtocolServices, { said, same, ...fact }: ClientFact): Promise<void> {
  const print = createHash('sha256').update(canonicalJson(same)).digest('base64');
  const notice = { actor: fact.node_instance_id, what: `${fact.kind} ${print}`, target: null };
  const entry = services.notices.admit(notice);
  if (!entry) return;
  const facts = [
    { ...fact, at: now(services.clock), layer: 'node' as const, data: { said: keptFields(said, maxBytes) } },
  ];
  // The row knows the current tenant, to whom the fact belongs.
  const isRecorded = await services.outside.record(instanceWriter(fact), facts, fillAllocationIds);
  if (!isRecorded) services.notices.undo(notice, entry);
}

/** The recorded sets of fields of each session, limited for clients that keep changing them. */
const recordedFields = new WeakMap<AgentSession, Set<string>>();
const maxFieldSets = 8;

/**
 * Records fields that we do not know of the protocol when they first occur. Their values go with
 * the heartbeats.
 */
export async function recordNewFields(
  services: ProtocolServices,
  session: AgentSession,
  { body, correlation_id }: ProtocolCall,
  known: readonly string[],
): Promise<void> {
  const said = fieldsExcept(body, known);
  const names = Object.keys(said).sort().join(', ');
  const recorded = recordedFields.get(session) ?? new Set();
  if (names === '' || recorded.has(names) || recorded.size >= maxFieldSets) return;
  recordedFields.set(session, recorded.add(names));
  const { node_id, node_instance_id } = session;
  const summary = `its heartbeats have unknown fields: ${names.slice(0, 200)}`;
  const ids = { node_id, node_instance_id, correlation_id };
  await recordClientFact(services, { ...ids, kind: 'client.said', summary, said, same: names });
}
