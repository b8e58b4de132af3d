/**
 * What the replica remembers of the agents that talk to it, so that a heartbeat needs no query. Filled on first use,
 * corrected by the evidence tail in commit order; the door checks the instance again before anything changes.
 */
import type { NodeId, NodeInstanceId } from '../base/ids.ts';
import type { Evidence } from '../contract/evidence.ts';
import { heartbeatPolicy } from '../lifecycle/budgets.ts';
import { isFenced, type NodeStatus, nodeStatusNames } from '../lifecycle/states.ts';
import { type Cause, isVerdict } from '../lifecycle/transitions.ts';
import { holderOf } from './allocations.ts';
import type { Database } from './database.ts';
import { hashSecret, type InstanceRow, instanceByCredential } from './instances.ts';

export interface AgentSession {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  allocation_id: string | null;
  correlation_id: string | null;
  node_status: NodeStatus;
  reported_status: string | null;
  /** The rule whose verdict brought the node where it stands. */
  verdict_rule: string | null;
  /** The boot stage its beats last named. */
  boot_stage: string | null;
  agent_public_key: string | null;
  interval_seconds: number;
  stale_after_seconds: number;
  tasks_waiting: number;
  fence: { kind: 'none' } | { kind: 'fenced'; reason: string };
}

export interface AgentSessions {
  find(credential: string, now: Date): Promise<AgentSession | undefined>;
  instance(credential: string, now: Date): Promise<InstanceRow | undefined>;
  forget(id: NodeInstanceId): void;
  observe(fact: Evidence): void;
}

interface SessionRow {
  node_status: NodeStatus;
  reported_status: string | null;
  verdict_rule: string | null;
  current_instance: string | null;
  correlation_id: string | null;
  allocation_id: string | null;
  heartbeat: { interval_seconds?: number; stale_after_seconds?: number } | null;
  tasks_waiting: number;
}

const mostSessions = 1_200_000;
const endsSession = new Set(['instance.fenced', 'instance.revoked', 'credential.replaced']);
const holdsNode = new Set(['allocation.provisioning', 'allocation.active']);
const nodeKinds = new Set(nodeStatusNames.map((status) => `node.${status}`));

const load = `
  select node.status as node_status, node.reported_status, node.verdict ->> 'rule' as verdict_rule, node.node_instance_id as current_instance, node.correlation_id,
    generation.document -> 'heartbeat' as heartbeat,
    ${holderOf('node.node_id')} as allocation_id,
    (select count(*)::int from tasks where node_instance_id = $2 and status = 'queued') as tasks_waiting
  from nodes node join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  where node.node_id = $1`;

const fenceOf = (instance: InstanceRow, row: SessionRow): AgentSession['fence'] => {
  if (instance.fenced_at) return { kind: 'fenced', reason: instance.fence_reason ?? 'it was fenced' };
  if (row.current_instance !== instance.node_instance_id)
    return { kind: 'fenced', reason: 'the node has a newer instance' };
  return { kind: 'none' };
};

export function createAgentSessions(db: Database): AgentSessions {
  const byCredential = new Map<string, AgentSession>();
  const byInstance = new Map<NodeInstanceId, { session: AgentSession; keys: Set<string> }>();

  /** Instances that facts spoke of while sessions were being loaded: what was loaded of them may be older than the fact. */
  const spokenOf = new Set<string>();
  let loading = 0;

  const forget = (id: NodeInstanceId) => {
    for (const key of byInstance.get(id)?.keys ?? []) byCredential.delete(key);
    byInstance.delete(id);
  };

  const remember = (key: string, session: AgentSession): AgentSession => {
    if (byInstance.size >= mostSessions) {
      const oldest = byInstance.keys().next();
      if (!oldest.done) forget(oldest.value);
    }
    const known = byInstance.get(session.node_instance_id) ?? { session, keys: new Set() };
    known.keys.add(key);
    byInstance.set(session.node_instance_id, known);
    byCredential.set(key, known.session);
    return known.session;
  };

  const loadSettled = async (instance: InstanceRow): Promise<SessionRow | undefined> => {
    loading++;
    try {
      for (;;) {
        spokenOf.delete(instance.node_instance_id);
        const [row] = await db.query<SessionRow>(load, [instance.node_id, instance.node_instance_id]);
        if (!spokenOf.has(instance.node_instance_id)) return row;
      }
    } finally {
      loading--;
      if (loading === 0) spokenOf.clear();
    }
  };

  return {
    forget,
    instance: (credential, now) => instanceByCredential(db, credential, now),
    async find(credential, now) {
      const key = hashSecret(credential).toString('base64');
      const cached = byCredential.get(key);
      if (cached) return cached;
      const instance = await instanceByCredential(db, credential, now);
      if (!instance) return undefined;
      const row = await loadSettled(instance);
      if (!row) return undefined;
      // The first use of a new credential ends the former one, here as in the table.
      if (instance.next_credential_hash) forget(instance.node_instance_id);
      const policy = heartbeatPolicy(row.heartbeat ?? {});
      return remember(key, {
        node_id: instance.node_id,
        node_instance_id: instance.node_instance_id,
        allocation_id: row.allocation_id,
        correlation_id: row.correlation_id,
        node_status: row.node_status,
        reported_status: row.reported_status,
        verdict_rule: row.verdict_rule,
        boot_stage: null,
        agent_public_key: instance.agent_public_key,
        ...policy,
        tasks_waiting: row.tasks_waiting,
        fence: fenceOf(instance, row),
      });
    },
    observe(fact) {
      const id = fact.node_instance_id as NodeInstanceId | null;
      if (id && loading > 0) spokenOf.add(id);
      const known = id && byInstance.get(id);
      if (!id || !known) return;
      if (endsSession.has(fact.kind)) forget(id);
      // A node that is used again stays ready while its tenants change; what it says then belongs to the new one.
      else if (holdsNode.has(fact.kind)) known.session.allocation_id = fact.allocation_id;
      else if (nodeKinds.has(fact.kind) && typeof fact.data.to === 'string') {
        known.session.node_status = fact.data.to as NodeStatus;
        known.session.verdict_rule = isVerdict(fact.data.by as Cause) ? String(fact.data.by) : null;
        // The fact that a node is clean belongs to the tenant that left; what the node says after it belongs to nobody.
        known.session.allocation_id = fact.data.from === 'cleaning' ? null : fact.allocation_id;
      } else if (fact.kind === 'task.queued' || fact.kind === 'task.requeued') known.session.tasks_waiting++;
      else if (fact.kind === 'task.leased') known.session.tasks_waiting = Math.max(0, known.session.tasks_waiting - 1);
    },
  };
}

export const isBarred = (session: AgentSession) => isFenced(session.node_status);
