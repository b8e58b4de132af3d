/**
 * What the replica remembers of the agents that talk to it, so that a heartbeat needs no query. Filled on first use; the door
 * checks the instance again before anything changes.
 *
 * The evidence tail tells when it is out of date, and the row says what is true: a fact comes a moment after the change it
 * tells of, and what is remembered may be newer, from the row or from the agent's own claim. Taken at its word, an old fact
 * would tell an agent that it is starting after it was told that it is ready.
 */
import { secondsLater } from '../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../base/ids.ts';
import type { Door } from '../contract/compat/door.ts';
import type { Evidence } from '../contract/evidence.ts';
import { heartbeatPolicy } from '../lifecycle/budgets.ts';
import { type NodeStatus, nodeStatusNames } from '../lifecycle/states.ts';
import { type Cause, leavesVerdict } from '../lifecycle/transitions.ts';
import { holderOf } from './allocations.ts';
import type { Database } from './database.ts';
import { hashSecret, type InstanceRow, instanceAtDoor, instanceByCredential } from './instances.ts';

export interface AgentSession {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  /** As it was last heard. Whoever keeps something under a tenant asks the row, which may know of another one by now. */
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
  /** What its instance said of itself at the front door that it came in by; see `InstanceRow`. */
  door: Door | null;
  name: string;
  announced_interval_seconds: number | null;
  client_instance: string | null;
  /** The interval that its beats were last judged by, by whichever replica. */
  kept_interval_seconds: number | null;
  fence: Fence;
}

/** `heard_until`: what it still has to say is kept until then, as nobody's; null when nothing is kept any more. */
export type Fence = { kind: 'none' } | { kind: 'fenced'; reason: string; heard_until: Date | null };

/** Long enough to ship what it had written before it heard of its fence; whoever kept its credential writes no more after that. */
const heardAfterFenceSeconds = 600;

export interface AgentSessions {
  find(credential: string, now: Date): Promise<AgentSession | undefined>;
  /** Whoever came in by a front door and has no credential of its own: the one of that name in the pool that its token opens. */
  findAtDoor(place: { door: Door; pool: string; name: string }): Promise<AgentSession | undefined>;
  instance(credential: string, now: Date): Promise<InstanceRow | undefined>;
  forget(id: NodeInstanceId): void;
  observe(fact: Evidence): void;
  /** For whoever holds a session for longer than an answer takes: brings it up to date, without a query where it is. */
  renew(session: AgentSession): Promise<void>;
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
  name: string;
  kept_interval_seconds: number | null;
}

const mostSessions = 1_200_000;
const endsSession = new Set(['instance.fenced', 'instance.revoked', 'credential.replaced']);
const holdsNode = new Set(['allocation.provisioning', 'allocation.active']);
const nodeKinds = new Set(nodeStatusNames.map((status) => `node.${status}`));

const load = `
  select node.status as node_status, node.reported_status, node.verdict ->> 'rule' as verdict_rule, node.node_instance_id as current_instance, node.correlation_id, node.name,
    (select interval_seconds from heartbeats where node_instance_id = $2) as kept_interval_seconds,
    generation.document -> 'heartbeat' as heartbeat,
    ${holderOf('node.node_id')} as allocation_id,
    (select count(*)::int from tasks where node_instance_id = $2 and status = 'queued') as tasks_waiting
  from nodes node join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  where node.node_id = $1`;

const fenceOf = (instance: InstanceRow, row: SessionRow): Fence => {
  const isLast = row.current_instance === instance.node_instance_id;
  const { fenced_at, fence_reason, revoked_at } = instance;
  if (fenced_at) {
    // Cut off with nobody after it: it is proven that nothing speaks for the node any more.
    const heard_until = isLast && revoked_at ? null : secondsLater(fenced_at, heardAfterFenceSeconds);
    return { kind: 'fenced', reason: fence_reason ?? 'it was fenced', heard_until };
  }
  return isLast ? { kind: 'none' } : { kind: 'fenced', reason: 'the node has a newer instance', heard_until: null };
};

/** What the row says of a session. */
const standing = (row: SessionRow) => ({
  allocation_id: row.allocation_id,
  correlation_id: row.correlation_id,
  node_status: row.node_status,
  reported_status: row.reported_status,
  verdict_rule: row.verdict_rule,
  tasks_waiting: row.tasks_waiting,
  name: row.name,
  kept_interval_seconds: row.kept_interval_seconds,
  ...heartbeatPolicy(row.heartbeat ?? {}),
});

/** What a fact says of a session; nothing where it speaks of something else. */
function toldBy({ kind, data, allocation_id }: Evidence): Partial<AgentSession> {
  // A node that is used again stays ready while its tenants change; what it says then belongs to the new one.
  if (holdsNode.has(kind)) return { allocation_id };
  // A row that was put back to what its evidence says may have been read while it said otherwise.
  const { status } = (data.set ?? {}) as { status?: NodeStatus };
  if (kind === 'node.restored') return status ? { node_status: status } : {};
  if (!nodeKinds.has(kind) || typeof data.to !== 'string') return {};
  return {
    node_status: data.to as NodeStatus,
    verdict_rule: leavesVerdict(data.by as Cause, data.to as NodeStatus) ? String(data.by) : null,
    // The fact that a node is clean belongs to the tenant that left; what the node says after it belongs to nobody.
    allocation_id: data.from === 'cleaning' ? null : allocation_id,
  };
}

const contradicts = (session: AgentSession, told: Partial<AgentSession>): boolean =>
  Object.entries(told).some(([name, value]) => session[name as keyof AgentSession] !== value);

interface Known {
  session: AgentSession;
  keys: Set<string>;
  /** A fact contradicts it: one of them is old, and the row knows which. */
  doubted: boolean;
}

export function createAgentSessions(db: Database): AgentSessions {
  /** By credential, or by door and name. */
  const byKey = new Map<string, Known>();
  const byInstance = new Map<NodeInstanceId, Known>();

  /** Which fact spoke last of an instance, by number, while sessions were being loaded: what was read before may be older. */
  const lastSpoken = new Map<string, number>();
  let facts = 0;
  let loading = 0;

  const forget = (id: NodeInstanceId) => {
    for (const key of byInstance.get(id)?.keys ?? []) byKey.delete(key);
    byInstance.delete(id);
  };

  const remember = (key: string, session: AgentSession): AgentSession => {
    if (byInstance.size >= mostSessions) {
      const oldest = byInstance.keys().next();
      if (!oldest.done) forget(oldest.value);
    }
    const known = byInstance.get(session.node_instance_id) ?? { session, keys: new Set(), doubted: false };
    known.keys.add(key);
    byInstance.set(session.node_instance_id, known);
    byKey.set(key, known);
    return known.session;
  };

  /** Reads until no fact spoke of the instance meanwhile. */
  const settled = async <T>(read: () => Promise<T>, idOf: (found: T) => NodeInstanceId | undefined): Promise<T> => {
    loading++;
    try {
      for (;;) {
        const begun = facts;
        const found = await read();
        if ((lastSpoken.get(idOf(found) ?? '') ?? 0) <= begun) return found;
      }
    } finally {
      loading--;
      if (loading === 0) lastSpoken.clear();
    }
  };

  const rowOf = async (node_id: NodeId, id: NodeInstanceId): Promise<SessionRow | undefined> =>
    (await db.query<SessionRow>(load, [node_id, id]))[0];

  const renew = async (session: AgentSession): Promise<void> => {
    const { node_id, node_instance_id: id } = session;
    const known = byInstance.get(id);
    if (known?.session === session && !known.doubted) return;
    const row = await settled(
      () => rowOf(node_id, id),
      () => id,
    );
    if (!row) return;
    if (row.current_instance !== id) forget(id);
    Object.assign(session, standing(row));
    if (known?.session === session) known.doubted = false;
  };

  const found = async (
    key: string,
    whose: () => Promise<InstanceRow | undefined>,
    keeps: (session: AgentSession) => boolean = () => true,
  ): Promise<AgentSession | undefined> => {
    const cached = byKey.get(key);
    if (cached && !cached.doubted) return cached.session;
    if (cached) {
      await renew(cached.session);
      // It may have been fenced or have got another credential meanwhile.
      if (byKey.get(key) === cached) return cached.session;
    }
    const loaded = await settled(
      async () => {
        const instance = await whose();
        return instance && { instance, row: await rowOf(instance.node_id, instance.node_instance_id) };
      },
      (each) => each?.instance.node_instance_id,
    );
    if (!loaded?.row) return undefined;
    const { instance, row } = loaded;
    const session: AgentSession = {
      node_id: instance.node_id,
      node_instance_id: instance.node_instance_id,
      boot_stage: null,
      agent_public_key: instance.agent_public_key,
      door: instance.door,
      announced_interval_seconds: instance.announced_interval_seconds,
      client_instance: instance.client_instance,
      ...standing(row),
      fence: fenceOf(instance, row),
    };
    return keeps(session) ? remember(key, session) : session;
  };

  return {
    forget,
    renew,
    instance: (credential, now) => instanceByCredential(db, credential, now),
    find: (credential, now) =>
      found(hashSecret(credential).toString('base64'), async () => {
        const instance = await instanceByCredential(db, credential, now);
        // The first use of a new credential ends the former one, here as in the table.
        if (instance?.next_credential_hash) forget(instance.node_instance_id);
        return instance;
      }),
    findAtDoor: (place) =>
      found(
        `${place.door} ${place.pool} ${place.name}`,
        () => instanceAtDoor(db, place),
        // A credential is that of its instance for ever; a name will be another one's when this one has gone.
        ({ fence }) => fence.kind === 'none',
      ),
    observe(fact) {
      facts++;
      const id = fact.node_instance_id as NodeInstanceId | null;
      if (id && loading > 0) lastSpoken.set(id, facts);
      const known = id && byInstance.get(id);
      if (!id || !known) return;
      if (endsSession.has(fact.kind)) forget(id);
      else if (contradicts(known.session, toldBy(fact))) known.doubted = true;
      else if (fact.kind === 'task.queued' || fact.kind === 'task.requeued') known.session.tasks_waiting++;
      else if (fact.kind === 'task.leased') known.session.tasks_waiting = Math.max(0, known.session.tasks_waiting - 1);
    },
  };
}
