/**
 * Caches the sessions of a replica's agents, so that a heartbeat needs no query. A session is read
 * on first use, and every transition checks the instance again before it changes a node.
 *
 * A fact of the evidence tail that contradicts a session marks it as outdated; then the row is
 * read. Facts arrive after their change, so a session may be newer than a fact: applied directly,
 * an old fact would return a node to `starting` after its agent got the reply `ready`. Only the
 * number of waiting tasks is changed by facts directly.
 */
import { createBatcher } from '../../../base/batching/batch.ts';
import { type Clock, pause, secondsLater } from '../../../base/clock.ts';
import { hashSecret } from '../../../base/credentials/random-secret.ts';
import { tuneGarbageCollection } from '../../../base/garbage-collection.ts';
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { Protocol } from '../../../contract/compat/protocol.ts';
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import { heartbeatPolicy } from '../../../lifecycle/deadlines/heartbeat-policy.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import type { Database } from '../../pg/database.ts';
import { type InstanceRow, instanceByCredential } from '../instances.ts';
import { contradicts } from './session-changes.ts';
import {
  readRowByName,
  readRowsAfter,
  readRowsByCredential,
  readRowsByInstance,
  type SentCredential,
  type SessionRow,
} from './session-rows.ts';

/** A replica may hold a million sessions, so each field costs a million times its size. */
export interface AgentSession {
  readonly node_id: NodeId;
  readonly node_instance_id: NodeInstanceId;
  pool: string;
  /** May be outdated. Code that stores data under a tenant reads the row instead. */
  allocation_id: string | null;
  node_status: NodeStatus;
  reported_status: string | null;
  /** The rule of the verdict that set the node's status. */
  verdict_rule: string | null;
  /** The boot stage in the last heartbeat that named one. */
  boot_stage: string | null;
  interval_seconds: number;
  stale_after_seconds: number;
  /** The assigned heartbeat interval in the store. Integers take less memory. */
  stored_interval_ms: number;
  /** The interval assigned last, and when. It is stored a moment later. */
  assigned_interval_ms: number;
  assigned_at_seconds: number;
  tasks_waiting: number;
  /** When the credential expires; 0 if never. */
  expires_seconds: number;
  /** Null for our own agents. */
  protocol_client: ProtocolClient | null;
  readonly fence: Fence;
  /** A fact contradicts the session, or the cache dropped it, so the row must be read again. */
  readonly is_outdated: boolean;
}

/** The registration of a foreign protocol's client; see `InstanceRow`. */
export interface ProtocolClient {
  protocol: Protocol;
  name: string;
  announced_interval_seconds: number | null;
  client_instance: string | null;
  /** The join token of the last registration. */
  join_token_id: string | null;
  /** Earlier join tokens with limited uses; they still authenticate the client. */
  earlier_join_token_ids: readonly string[] | null;
  /** The interval that any replica last judged the client's heartbeats by. */
  stored_interval_seconds: number | null;
}

/**
 * Until `heard_until`, logs and reports of a fenced instance are still stored, without a tenant.
 * Null if they are refused at once.
 */
export type Fence = { kind: 'none' } | { kind: 'fenced'; reason: string; heard_until: Date | null };

/** Long enough to ship buffered logs, and short enough to stop a stolen credential. */
const heardAfterFenceSeconds = 600;

export interface AgentSessions {
  /** Returns a cached session that is not outdated, without a query. */
  getCached(credential: string): AgentSession | undefined;
  find(credential: string, now: Date): Promise<AgentSession | undefined>;
  /** Finds a foreign protocol's client, which has no credential, by its pool and name. */
  findByName(place: { protocol: Protocol; pool: string; name: string }): Promise<AgentSession | undefined>;
  /**
   * Fills the cache before heartbeats arrive, up to its limit. After each page, pauses for as long
   * as the page took. Returns the number of sessions.
   */
  preload(clock: Clock, stopped: AbortSignal): Promise<number>;
  readInstance(credential: string, now: Date): Promise<InstanceRow | undefined>;
  forget(id: NodeInstanceId): void;
  forgetAll(): void;
  /** Drops the session of an instance that the store refused as fenced; returns the reason. */
  forgetFenced(id: NodeInstanceId): Promise<string>;
  observe(fact: Evidence): void;
  /** Updates a session that the caller held for long, without a query if it is current. */
  renew(session: AgentSession): Promise<void>;
}

const maxSessions = 1_200_000;
const gcTuningSessions = 100_000;
/** After a restart, one statement finds as many agents as a relay sends heartbeats for at once. */
const batchLimits = { max_keys: 1_000, max_concurrent: 2 };
/** Small, so that heartbeats do not wait long while a page is read. */
const pageSize = 200;
const endingKinds = new Set(['instance.fenced', 'instance.revoked', 'credential.replaced']);
const unfenced: Fence = { kind: 'none' };
const replacedReason = 'the node has a newer instance';

const fenceOf = (row: SessionRow): Fence => {
  const isCurrent = row.current_instance === row.node_instance_id;
  const { fenced_at, fence_reason, revoked_at } = row;
  if (fenced_at) {
    // A revoked instance without a successor is proven gone, so its reports are refused at once.
    const heard_until = isCurrent && revoked_at ? null : secondsLater(fenced_at, heardAfterFenceSeconds);
    return { kind: 'fenced', reason: fence_reason ?? 'it was fenced', heard_until };
  }
  return isCurrent ? unfenced : { kind: 'fenced', reason: replacedReason, heard_until: null };
};

const maxWords = 10_000;
const words = new Map<string, string>();
/** Interns the few words that come with every row, so that one copy of each is kept. */
function intern<Word extends string | null>(word: Word): Word {
  if (word === null) return word;
  const copy = words.get(word);
  if (copy !== undefined) return copy as Word;
  if (words.size < maxWords) words.set(word, word);
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
    stored_interval_seconds: row.stored_interval_seconds,
  };

/** One flat object per agent. It holds its own cache keys, so that the cache can drop it. */
class CachedSession implements AgentSession {
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
  /** Nearly every session has one key; while a credential is replaced there may be more. */
  key: string | null = null;
  more_keys: string[] | null = null;
  is_outdated = false;

  constructor(row: SessionRow) {
    this.node_id = row.node_id;
    this.node_instance_id = row.node_instance_id;
    this.fence = fenceOf(row);
    this.applyRow(row);
    this.stored_interval_ms = Math.round(1000 * (row.stored_interval_seconds ?? this.interval_seconds));
    this.assigned_interval_ms = this.stored_interval_ms;
  }

  applyRow(row: SessionRow): void {
    const { interval_seconds, stale_after_seconds } = heartbeatPolicy(row.heartbeat ?? {});
    this.pool = intern(row.pool);
    this.allocation_id = row.allocation_id;
    this.node_status = intern(row.node_status);
    this.reported_status = intern(row.reported_status);
    this.verdict_rule = intern(row.verdict_rule);
    this.tasks_waiting = row.tasks_waiting;
    this.expires_seconds = row.credential_expires_at ? Math.floor(row.credential_expires_at.getTime() / 1000) : 0;
    this.interval_seconds = interval_seconds;
    this.stale_after_seconds = stale_after_seconds;
    this.protocol_client = protocolClientOf(row);
    this.is_outdated = false;
  }

  addKey(key: string): void {
    if (this.key === null || this.key === key) this.key = key;
    else if (!this.more_keys?.includes(key)) this.more_keys = [...(this.more_keys ?? []), key];
  }
}

/** Copies the text, because a slice of a request's header would keep the whole header in memory. */
const copyText = (credential: string): string => Buffer.from(credential).toString();

export function createAgentSessions(db: Database, limit = maxSessions): AgentSessions {
  /** Keyed by the credential's text: a hash per heartbeat costs more than all other work here. */
  const credentialIndex = new Map<string, CachedSession>();
  /** Sessions from `preload` by credential hash, until the agent sends its credential. */
  const hashIndex = new Map<string, CachedSession>();
  /** Separate, because otherwise a name sent as a credential would authenticate its sender. */
  const nameIndex = new Map<string, CachedSession>();
  const instanceIndex = new Map<string, CachedSession>();

  /** The number of the last fact about each instance during reads. A row may not show it yet. */
  const lastFactNumbers = new Map<string, number>();
  let factCount = 0;
  let runningReads = 0;

  const forget = (id: string) => {
    const session = instanceIndex.get(id);
    if (!session) return;
    // A request may still hold the session.
    session.is_outdated = true;
    for (const key of [session.key, ...(session.more_keys ?? [])])
      if (key !== null)
        for (const index of [credentialIndex, hashIndex, nameIndex]) if (index.get(key) === session) index.delete(key);
    instanceIndex.delete(id);
  };

  const remember = (row: SessionRow): CachedSession => {
    let session = instanceIndex.get(row.node_instance_id);
    if (!session) {
      if (instanceIndex.size >= limit) {
        const oldest = instanceIndex.keys().next();
        if (!oldest.done) forget(oldest.value);
      }
      session = new CachedSession(row);
      instanceIndex.set(row.node_instance_id, session);
      if (instanceIndex.size === gcTuningSessions) tuneGarbageCollection();
    } else if (session.is_outdated) session.applyRow(row);
    return session;
  };

  const rememberUnder = (index: Map<string, CachedSession>, key: string, row: SessionRow): CachedSession => {
    const session = remember(row);
    session.addKey(key);
    index.set(key, session);
    return session;
  };

  const trackFactsDuring = async <Result>(read: () => Promise<Result>): Promise<Result> => {
    runningReads++;
    try {
      return await read();
    } finally {
      runningReads--;
      if (runningReads === 0) lastFactNumbers.clear();
    }
  };

  /** Reads again while facts about the rows arrive. Returns rows in the order of the keys. */
  const readCurrent = async <Key>(
    keys: readonly Key[],
    read: (keys: readonly Key[]) => Promise<(SessionRow | undefined)[]>,
  ): Promise<(SessionRow | undefined)[]> => {
    const current: (SessionRow | undefined)[] = keys.map(() => undefined);
    let pending = keys.map((_, index) => index);
    return trackFactsDuring(async () => {
      while (pending.length > 0) {
        const factsBefore = factCount;
        const rows = await read(pending.map((index) => keys[index] as Key));
        for (const [place, index] of pending.entries()) current[index] = rows[place];
        pending = pending.filter(
          (index) => (lastFactNumbers.get(current[index]?.node_instance_id ?? '') ?? 0) > factsBefore,
        );
      }
      return current;
    });
  };

  /** Returns the cursor of the next page; undefined after the last. */
  const preloadPage = (cursor: string): Promise<string | undefined> =>
    trackFactsDuring(async () => {
      const factsBefore = factCount;
      const rows = await readRowsAfter(db, cursor, pageSize);
      // An agent with a newer fact is skipped; its next heartbeat looks it up.
      const isCurrent = ({ node_instance_id }: SessionRow) =>
        (lastFactNumbers.get(node_instance_id) ?? 0) <= factsBefore;
      for (const row of rows) {
        const { credential_hash, node_instance_id: id } = row;
        if (credential_hash && row.current_instance === id && !instanceIndex.has(id) && isCurrent(row))
          rememberUnder(hashIndex, credential_hash.toString('latin1'), row);
      }
      return rows.length < pageSize ? undefined : rows.at(-1)?.node_instance_id;
    });

  const findCached = (credential: string): CachedSession | undefined => {
    const session = credentialIndex.get(credential);
    if (session || hashIndex.size === 0) return session;
    const key = hashSecret(credential).toString('latin1');
    const preloaded = hashIndex.get(key);
    if (!preloaded) return undefined;
    hashIndex.delete(key);
    preloaded.key = copyText(credential);
    credentialIndex.set(preloaded.key, preloaded);
    return preloaded;
  };

  const readByCredential = createBatcher(
    (sent: SentCredential[]) =>
      // The first use of a new credential voids the former one, in the cache as in the table.
      readCurrent(sent, (credentials) => readRowsByCredential(db, credentials, forget)),
    batchLimits,
  );
  const readById = createBatcher(
    (ids: string[]) => readCurrent(ids, (some) => readRowsByInstance(db, some)),
    batchLimits,
  );

  const renew = async (session: AgentSession): Promise<void> => {
    const { node_instance_id: id } = session;
    const cached = instanceIndex.get(id);
    if (cached === session && !cached.is_outdated) return;
    const row = await readById(id);
    if (!row) return;
    if (row.current_instance !== id) forget(id);
    (session as CachedSession).applyRow(row);
    // A session that the cache dropped gets no further facts, so it stays outdated.
    (session as CachedSession).is_outdated = instanceIndex.get(id) !== session;
  };

  /** Returns a cached session, renewed if outdated; undefined if it must be looked up. */
  const findCurrent = async (find: () => CachedSession | undefined): Promise<CachedSession | undefined> => {
    const session = find();
    if (!session?.is_outdated) return session;
    await renew(session);
    // The instance may have been fenced, or got another credential, during the read.
    return find() === session ? session : undefined;
  };

  return {
    forget,
    forgetAll() {
      for (const id of [...instanceIndex.keys()]) forget(id);
    },
    renew,
    async forgetFenced(id) {
      forget(id);
      const row = await readById(id);
      const fence = row ? fenceOf(row) : unfenced;
      return fence.kind === 'fenced' ? fence.reason : replacedReason;
    },
    getCached(credential) {
      const session = findCached(credential);
      return session && !session.is_outdated ? session : undefined;
    },
    async preload(clock, stopped) {
      let cursor: string | undefined = '';
      while (cursor !== undefined && !stopped.aborted && instanceIndex.size < limit) {
        const startedMs = clock.monotonicMs();
        cursor = await preloadPage(cursor);
        if (cursor !== undefined) await pause(clock, clock.monotonicMs() - startedMs, stopped);
      }
      return instanceIndex.size;
    },
    readInstance: (credential, now) => instanceByCredential(db, credential, now),
    async find(credential, now) {
      const cached = await findCurrent(() => findCached(credential));
      if (cached) return cached;
      const row = await readByCredential({ hash: hashSecret(credential), now });
      return row && rememberUnder(credentialIndex, copyText(credential), row);
    },
    async findByName(place) {
      const key = `${place.protocol} ${place.pool} ${place.name}`;
      const cached = await findCurrent(() => nameIndex.get(key));
      if (cached) return cached;
      const [row] = await readCurrent([place], async () => [await readRowByName(db, place)]);
      if (!row) return undefined;
      // A credential belongs to one instance for ever, but a name passes on when its holder is
      // gone, so a fenced holder is not cached under its name.
      return fenceOf(row).kind === 'none' ? rememberUnder(nameIndex, key, row) : new CachedSession(row);
    },
    observe(fact) {
      factCount++;
      const id = fact.node_instance_id as NodeInstanceId | null;
      if (id && runningReads > 0) lastFactNumbers.set(id, factCount);
      const session = id && instanceIndex.get(id);
      if (!id || !session) return;
      if (endingKinds.has(fact.kind)) forget(id);
      else if (contradicts(session, fact)) session.is_outdated = true;
      else if (fact.kind === 'task.queued' || fact.kind === 'task.requeued') session.tasks_waiting++;
      else if (fact.kind === 'task.leased') session.tasks_waiting = Math.max(0, session.tasks_waiting - 1);
    },
  };
}
