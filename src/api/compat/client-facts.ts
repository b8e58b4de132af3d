/**
 * Records what foreign clients report about themselves as evidence of the node. The report is cut
 * to a maximum size, and the store redacts it. Repeats of an unchanged report are rate limited.
 */
import { createHash } from 'node:crypto';
import { now } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { instanceWriter } from '../limits/quotas/writers.ts';
import type { ProtocolCall, ProtocolServices } from './calls.ts';
import { omitFields, selectFields } from './kept-fields.ts';

const maxBytes = 16 * 1024;

interface ClientFact {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  correlation_id: CorrelationId;
  kind: 'client.registered' | 'client.said';
  summary: string;
  said: Record<string, unknown>;
  /** Two facts of one kind with equal keys are the same report. */
  dedupeKey: unknown;
}

export async function recordClientFact(
  services: ProtocolServices,
  { said, dedupeKey, ...fact }: ClientFact,
): Promise<void> {
  const fingerprint = createHash('sha256').update(canonicalJson(dedupeKey)).digest('base64');
  const notice = { actor: fact.node_instance_id, kind: `${fact.kind} ${fingerprint}`, target: null };
  const entry = services.notices.admit(notice);
  if (!entry) return;
  const facts = [
    { ...fact, at: now(services.clock), layer: 'node' as const, data: { said: selectFields(said, maxBytes) } },
  ];
  // The fact belongs to the node's current tenant, who is known from the node's row.
  const isRecorded = await services.writeLimits.record(instanceWriter(fact), facts, fillAllocationIds);
  if (!isRecorded) services.notices.undo(notice, entry);
}

/** The sets of fields recorded for each session, limited since a client may keep changing them. */
const recordedFields = new WeakMap<AgentSession, Set<string>>();
const maxFieldSets = 8;

/**
 * Records fields that are not in `knownNames` when they first occur. Later values are only stored
 * with the heartbeats.
 */
export async function recordNewFields(
  services: ProtocolServices,
  session: AgentSession,
  { body, correlation_id }: ProtocolCall,
  knownNames: readonly string[],
): Promise<void> {
  const said = omitFields(body, knownNames);
  const names = Object.keys(said).sort().join(', ');
  const fieldSets = recordedFields.get(session) ?? new Set();
  if (names === '' || fieldSets.has(names) || fieldSets.size >= maxFieldSets) return;
  recordedFields.set(session, fieldSets.add(names));
  const { node_id, node_instance_id } = session;
  const summary = `the client's heartbeats have unknown fields: ${names.slice(0, 200)}`;
  const ids = { node_id, node_instance_id, correlation_id };
  await recordClientFact(services, { ...ids, kind: 'client.said', summary, said, dedupeKey: names });
}
