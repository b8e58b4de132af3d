/**
 * What the replica remembers of the agents that talk to it, so that a heartbeat needs no query. Filled on first use; the door
 * checks the instance again before anything changes.
 *
 * The evidence tail tells when it is out of date, and the row says what is true: a fact comes a moment after the change it
 * tells of, and what is remembered may be newer, from the row or from the agent's own claim. Taken at its word, an old fact
 * would tell an agent that it is starting after it was told that it is ready.
 */
import { createBatcher } from '../../../base/batching/batch.ts';
import { type Clock, pause, secondsLater } from '../../../base/clock.ts';
import { hashSecret } from '../../../base/credentials/random-secret.ts';
import { tuneGarbageCollection } from '../../../base/garbage-collection.ts';
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { Protocol } from '../../../contract/compat/protocol.ts';
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import { heartbeatPolicy } from '../../../lifecycle/deadlines/budgets.ts';
import { type NodeStatus, nodeStatusNames } from '../../../lifecycle/model/states.ts';
import { type Cause, leavesVerdict } from '../../../lifecycle/model/transitions.ts';
import type { Database } from '../../pg/database.ts';
import { type InstanceRow, instanceByCredential } from '../instances.ts';
import { rowByName, rowsAfter, rowsByCredential, rowsByInstance, type SessionRow, type Shown } from './session-rows.ts';

/** There are as many as agents, so each field here costs a million times its size. */
export interface AgentSession {
  readonly node_id: NodeId;
  readonly node_instance_id: NodeInstanceId;
  pool: string;
  /** As it was last heard. Whoever keeps something under a tenant asks the row, which may know of another one by now. */
  allocation_id: string | null;
  node_status: NodeStatus;
  reported_status: string | null;
  /** The rule whose verdict brought the node where it stands. */
  verdict_rule: string | null;
  /** The boot stage its beats last named. */
  boot_stage: string | null;
  interval_seconds: number;
  stale_after_seconds: number;
  /** The interval that it was told as the store knows it; the one that it was told last, which is stored a moment later; and when. Whole numbers take less. */
  stored_interval_ms: number;
  assigned_interval_ms: number;
  assigned_at_seconds: number;
  tasks_waiting: number;
  /** When its credential stops being accepted; 0: it does not age. */
  expires_seconds: number;
  /** Null for our own agents. */
  protocol_client: ProtocolClient | null;
  readonly fence: Fence;
  /** Not to be taken at its word any more: a fact contradicts it, and the row knows who is right, or it was forgotten. */
  readonly is_outdated: boolean;
}

/** What a client of a foreign protocol reported when it registered; see `InstanceRow`. */
export interface ProtocolClient {
  protocol: Protocol;
  name: string;
  announced_interval_seconds: number | null;
  client_instance: string | null;
  /** The join token that it registered with last. */
  join_token_id: string | null;
  /** Those with limited uses that it registered with before; they still speak for it. */
  earlier_join_token_ids: readonly string[] | null;
  /** The interval that its beats were last judged by, by whichever replica. */
  kept_interval_seconds: number | null;
}

/** `heard_until`: what it still has to say is kept until then, as nobody's; null when nothing is kept any more. */
export type Fence = { kind: 'none' } | { kind: 'fenced'; reason: string; heard_until: Date | null };

/** Long enough to ship what it had written before it heard of its fence; whoever kept its credential writes no more after that. */
const heardAfterFenceSeconds = 600;

export interface AgentSessions {
  /** Whoever is remembered and not doubted, without a question to the store. */
  known(credential: string): AgentSession | undefined;
  find(credential: string, now: Date): Promise<AgentSession | undefined>;
  /** A client of a foreign protocol has no credential of its own; its name finds it in the pool of its join token. */
  findByName(place: { protocol: Protocol; pool: string; name: string }): Promise<AgentSession | undefined>;
  /** Learns those who may be beating before they do, as far as there is room, and leaves others as much time as it takes. Says how many. */
  learnAll(clock: Clock, stopped: AbortSignal): Promise<number>;
  instance(credential: string, now: Date): Promise<InstanceRow | undefined>;
  forget(id: NodeInstanceId): void;
  /** For whoever heard from the store that an instance counts no more, before the fact of its fence came: forgets it, and says why. */
  whyFenced(id: NodeInstanceId): Promise<string>;
  observe(fact: Evidence): void;
  /** For whoever holds a session for longer than an answer takes: brings it up to date, without a query where it is. */
  renew(session: AgentSession): Promise<void>;
}

const mostSessions = 1_200_000;
const manySessions = 100_000;
/** A replica that has forgotten everybody learns as many of them by one statement as a relay sends at once. */
const together = { max_keys: 1_000, max_concurrent: 2 };
/** Few enough that nobody waits long for their rows to be read. */
const learntAtOnce = 200;
const endsSession = new Set(['instance.fenced', 'instance.revoked', 'credential.replaced']);
const holdsNode = new Set(['allocation.provisioning', 'allocation.active']);
const nodeKinds = new Set(nodeStatusNames.map((status) => `node.${status}`));
const unfenced: Fence = { kind: 'none' };
const replaced = 'the node has a newer instance';

const fenceOf = (row: SessionRow): Fence => {
  const isLast = row.current_instance === row.node_instance_id;
  const { fenced_at, fence_reason, revoked_at } = row;
  if (fenced_at) {
    // Cut off with nobody after it: it is proven that nothing speaks for the node any more.
    const heard_until = isLast && revoked_at ? null : secondsLater(fenced_at, heardAfterFenceSeconds);
    return { kind: 'fenced', reason: fence_reason ?? 'it was fenced', heard_until };
  }
  return isLast ? unfenced : { kind: 'fenced', reason: replaced, heard_until: null };
};

/** The same few words come with every row; one copy of each is enough. */
const words = new Map<string, string>();
function shared<Word extends string | null>(word: Word): Word {
  if (word === null) return word;
  const kept = words.get(word);
  if (kept !== undefined) return kept as Word;
  if (words.size < 10_000) words.set(word, word);
  return word;
}

const protocolClientOf = (row: SessionRow): ProtocolClient | null =>
  row.door && {
    protocol: row.door,
    name: row.name,
    announced_interval_seconds: row.announced_interval_seconds,
    client_instance: row.client_instance,
    join_token_id: row.join_token_id,
    earlier_join_token_ids: row.earlier_join_token_ids,
    kept_interval_seconds: row.kept_interval_seconds,
  };

/** One object for each agent, with all that is remembered of it: its keys as well, so that it can be forgotten. */
class Remembered implements AgentSession {
  readonly node_id: NodeId;
  readonly node_instance_id: NodeInstanceId;
  pool = '';
  allocation_id: string | null = null;
  node_status: NodeStatus = 'provisioning';
  reported_status: string | null = null;
  verdict_rule: string | null = null;
  boot_stage: string | null = null;
  interval_seconds = 0;
  stale_after_seconds = 0;
  stored_interval_ms = 0;
  assigned_interval_ms = 0;
  assigned_at_seconds = 0;
  tasks_waiting = 0;
  expires_seconds = 0;
  protocol_client: ProtocolClient | null = null;
  readonly fence: Fence;
  /** By which it is found. Nearly all have one; while a credential is replaced there may be another. */
  key: string | null = null;
  more_keys: string[] | null = null;
  is_outdated = false;

  constructor(row: SessionRow) {
    this.node_id = row.node_id;
    this.node_instance_id = row.node_instance_id;
    this.fence = fenceOf(row);
    this.stand(row);
    this.stored_interval_ms = Math.round(1000 * (row.kept_interval_seconds ?? this.interval_seconds));
    this.assigned_interval_ms = this.stored_interval_ms;
  }

  /** As the row says. */
  stand(row: SessionRow): void {
    const { interval_seconds, stale_after_seconds } = heartbeatPolicy(row.heartbeat ?? {});
    this.pool = shared(row.pool);
    this.allocation_id = row.allocation_id;
    this.node_status = shared(row.node_status);
    this.reported_status = shared(row.reported_status);
    this.verdict_rule = shared(row.verdict_rule);
    this.tasks_waiting = row.tasks_waiting;
    this.expires_seconds = row.credential_expires_at ? Math.floor(row.credential_expires_at.getTime() / 1000) : 0;
    this.interval_seconds = interval_seconds;
    this.stale_after_seconds = stale_after_seconds;
    this.protocol_client = protocolClientOf(row);
    this.is_outdated = false;
  }

  isFoundBy(key: string): void {
    if (this.key === null || this.key === key) this.key = key;
    else if (!this.more_keys?.includes(key)) this.more_keys = [...(this.more_keys ?? []), key];
  }
}

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

/** Of its own: what was cut out of a request's header would keep the whole header. */
const copied = (credential: string): string => Buffer.from(credential).toString();

export function createAgentSessions(db: Database, most = mostSessions): AgentSessions {
  /**
   * As it was shown: a hash of it would be a little shorter, and to make one for each beat costs more than all else that is done
   * here for it. Only what the table knew the hash of is remembered.
   */
  const byCredential = new Map<string, Remembered>();
  /** Of those who were learned from the table and have not shown theirs since: until they do, only its hash is known. */
  const byHash = new Map<string, Remembered>();
  /** Apart from credentials, which may be any text: nobody is believed for showing a name. */
  const byPlace = new Map<string, Remembered>();
  const byInstance = new Map<string, Remembered>();

  /** Which fact spoke last of an instance, by number, while sessions were being loaded: what was read before may be older. */
  const lastSpoken = new Map<string, number>();
  let facts = 0;
  let loading = 0;

  const forget = (id: string) => {
    const known = byInstance.get(id);
    if (!known) return;
    // Somebody may still hold it, waiting for the rest of a request.
    known.is_outdated = true;
    for (const key of [known.key, ...(known.more_keys ?? [])])
      if (key !== null)
        for (const kept of [byCredential, byHash, byPlace]) if (kept.get(key) === known) kept.delete(key);
    byInstance.delete(id);
  };

  const remember = (row: SessionRow): Remembered => {
    let known = byInstance.get(row.node_instance_id);
    if (!known) {
      if (byInstance.size >= most) {
        const oldest = byInstance.keys().next();
        if (!oldest.done) forget(oldest.value);
      }
      known = new Remembered(row);
      byInstance.set(row.node_instance_id, known);
      if (byInstance.size === manySessions) tuneGarbageCollection();
    } else if (known.is_outdated) known.stand(row);
    return known;
  };

  const rememberBy = (kept: Map<string, Remembered>, key: string, row: SessionRow): Remembered => {
    const known = remember(row);
    known.isFoundBy(key);
    kept.set(key, known);
    return known;
  };

  const whileFactsAreKept = async <Result>(reading: () => Promise<Result>): Promise<Result> => {
    loading++;
    try {
      return await reading();
    } finally {
      loading--;
      if (loading === 0) lastSpoken.clear();
    }
  };

  /** Reads until no fact spoke meanwhile of an instance that was found; answers in the order of the keys. */
  const settled = async <Key>(
    keys: readonly Key[],
    read: (keys: readonly Key[]) => Promise<(SessionRow | undefined)[]>,
  ): Promise<(SessionRow | undefined)[]> => {
    const found: (SessionRow | undefined)[] = keys.map(() => undefined);
    let open = keys.map((_, index) => index);
    return whileFactsAreKept(async () => {
      while (open.length > 0) {
        const begun = facts;
        const rows = await read(open.map((index) => keys[index] as Key));
        for (const [place, index] of open.entries()) found[index] = rows[place];
        open = open.filter((index) => (lastSpoken.get(found[index]?.node_instance_id ?? '') ?? 0) > begun);
      }
      return found;
    });
  };

  /** Says where to go on, if there is more. */
  const learnSome = (cursor: string): Promise<string | undefined> =>
    whileFactsAreKept(async () => {
      const begun = facts;
      const rows = await rowsAfter(db, cursor, learntAtOnce);
      // Whoever was spoken of meanwhile is looked up when it beats, as if nobody had read of it.
      const isSettled = ({ node_instance_id }: SessionRow) => (lastSpoken.get(node_instance_id) ?? 0) <= begun;
      for (const row of rows) {
        const { credential_hash, node_instance_id: id } = row;
        if (credential_hash && row.current_instance === id && !byInstance.has(id) && isSettled(row))
          rememberBy(byHash, credential_hash.toString('latin1'), row);
      }
      return rows.length < learntAtOnce ? undefined : rows.at(-1)?.node_instance_id;
    });

  const shownBefore = (credential: string): Remembered | undefined => {
    const found = byCredential.get(credential);
    if (found || byHash.size === 0) return found;
    const key = hashSecret(credential).toString('latin1');
    const learnt = byHash.get(key);
    if (!learnt) return undefined;
    byHash.delete(key);
    learnt.key = copied(credential);
    byCredential.set(learnt.key, learnt);
    return learnt;
  };

  const readByCredential = createBatcher(
    (shown: Shown[]) =>
      // The first use of a new credential ends the former one, here as in the table.
      settled(shown, (asked) => rowsByCredential(db, asked, forget)),
    together,
  );
  const readById = createBatcher((ids: string[]) => settled(ids, (asked) => rowsByInstance(db, asked)), together);

  const renew = async (session: AgentSession): Promise<void> => {
    const { node_instance_id: id } = session;
    const known = byInstance.get(id);
    if (known === session && !known.is_outdated) return;
    const row = await readById(id);
    if (!row) return;
    if (row.current_instance !== id) forget(id);
    (session as Remembered).stand(row);
    // One that was forgotten is known as it stands now, and still not found by anybody.
    (session as Remembered).is_outdated = byInstance.get(id) !== session;
  };

  /** Undefined where it has to be looked up. */
  const atHand = async (
    find: () => Remembered | undefined,
    known: Remembered | undefined,
  ): Promise<Remembered | undefined> => {
    if (!known?.is_outdated) return known;
    await renew(known);
    // It may have been fenced or have got another credential meanwhile.
    return find() === known ? known : undefined;
  };

  return {
    forget,
    renew,
    async whyFenced(id) {
      forget(id);
      const row = await readById(id);
      const fence = row ? fenceOf(row) : unfenced;
      return fence.kind === 'fenced' ? fence.reason : replaced;
    },
    known(credential) {
      const found = shownBefore(credential);
      return found && !found.is_outdated ? found : undefined;
    },
    async learnAll(clock, stopped) {
      let cursor: string | undefined = '';
      while (cursor !== undefined && !stopped.aborted && byInstance.size < most) {
        const startedMs = clock.monotonicMs();
        cursor = await learnSome(cursor);
        if (cursor !== undefined) await pause(clock, clock.monotonicMs() - startedMs, stopped);
      }
      return byInstance.size;
    },
    instance: (credential, now) => instanceByCredential(db, credential, now),
    async find(credential, now) {
      const cached = await atHand(() => shownBefore(credential), shownBefore(credential));
      if (cached) return cached;
      const row = await readByCredential({ hash: hashSecret(credential), now });
      return row && rememberBy(byCredential, copied(credential), row);
    },
    async findByName(place) {
      const key = `${place.protocol} ${place.pool} ${place.name}`;
      const cached = await atHand(() => byPlace.get(key), byPlace.get(key));
      if (cached) return cached;
      const [row] = await settled([place], async ([asked]) => [asked && (await rowByName(db, asked))]);
      if (!row) return undefined;
      // A credential is that of its instance for ever; a name will be another one's when this one has gone.
      return fenceOf(row).kind === 'none' ? rememberBy(byPlace, key, row) : new Remembered(row);
    },
    observe(fact) {
      facts++;
      const id = fact.node_instance_id as NodeInstanceId | null;
      if (id && loading > 0) lastSpoken.set(id, facts);
      const known = id && byInstance.get(id);
      if (!id || !known) return;
      if (endsSession.has(fact.kind)) forget(id);
      else if (contradicts(known, toldBy(fact))) known.is_outdated = true;
      else if (fact.kind === 'task.queued' || fact.kind === 'task.requeued') known.tasks_waiting++;
      else if (fact.kind === 'task.leased') known.tasks_waiting = Math.max(0, known.tasks_waiting - 1);
    },
  };
}
