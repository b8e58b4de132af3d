/**
 * Which connections are kept when there are more than this process may have open. A connection that has shown no credential
 * gives way to newer ones, so slow clients cannot keep others out; many machines behind one address show theirs at once and
 * are not counted. Idle connections come next. The last part is kept for short requests and for people.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Clock } from '../../../base/clock.ts';
import { plainAddress, type TrustedProxies } from '../../../base/network/trusted-proxies.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { networkOf } from '../../http/source-address.ts';

export interface ConnectionCaps {
  /** All connections. */
  total: number;
  /** Of these, kept for short requests and people: no agent waits for tasks or streams here. */
  reserved: number;
  /** Connections without a credential, in total and per address. Beyond that, the oldest one is closed. */
  unknown: number;
  unknown_source: number;
}

/** For the database, logs, child processes and whatever else the server opens itself. */
const ownFiles = 128;

export function connectionCaps(openFiles: number): ConnectionCaps {
  const total = Math.max(64, Math.floor(openFiles - Math.max(ownFiles, openFiles / 10)));
  return {
    total,
    reserved: Math.max(16, Math.floor(total / 20)),
    unknown: Math.floor(total / 2),
    unknown_source: Math.max(16, Math.floor(total / 8)),
  };
}

export interface ConnectionFigures {
  open: number;
  closed_unknown: number;
  closed_idle: number;
  refused: number;
}

export interface Connections {
  /** Counts what connects to this server from now on. */
  watch(server: Server): void;
  figures(): ConnectionFigures;
}

/** What is known of a connection; on the socket that requests come by, so that a request costs no look-up. */
const state = Symbol('connection');
interface Connection {
  /** Node keeps the response that is under way here, and null in between. */
  socket: Socket & { _httpMessage?: { req?: { complete?: boolean } } | null };
  source: string;
  hasCredential: boolean;
  /** It holds a place of the reserve. */
  isReserved: boolean;
  /** A stream: never idle. */
  isUpgraded: boolean;
}
type Counted = { [state]?: Connection };

/** A request on this connection has shown a credential that is good. */
export function markIdentified(socket: object): void {
  const connection = (socket as Counted)[state];
  if (connection) connection.hasCredential = true;
}

const isReserved = (socket: object): boolean => (socket as Counted)[state]?.isReserved ?? false;

/** Machines wait here for a long time; the reserve is not for that. */
const holds: readonly OperationName[] = ['agent-task-next', 'agent-stream'];
const retryAfterSeconds = 5;

/** Once it is known who asks. */
export function admitOnConnection({ raw, person, agent_session, relay }: FastifyRequest, name: OperationName): void {
  if (person || agent_session || relay) markIdentified(raw.socket);
  if (holds.includes(name) && isReserved(raw.socket))
    throw new ApiProblem('rate_limited', {
      detail: 'This replica has no connection left that may be held open.',
      retry_after_seconds: retryAfterSeconds,
    });
}

const noticeEveryMs = 10_000;
/** So many are looked at for an idle one; busy ones go to the end of the queue. */
const maxLooks = 256;

export function createConnections(needs: {
  clock: Clock;
  caps: ConnectionCaps;
  proxies: TrustedProxies;
  /** At most every 10 s while connections are closed or refused. */
  onPressure(figures: ConnectionFigures & { caps: ConnectionCaps; source: string }): void;
}): Connections {
  const { clock, caps, proxies, onPressure } = needs;
  /** Oldest first. */
  const all = new Set<Connection>();
  const unknown = new Set<Connection>();
  const bySource = new Map<string, Set<Connection>>();
  const byPeer = new Map<string, Connection>();
  const counts = { closed_unknown: 0, closed_idle: 0, refused: 0 };
  let noticedMs = Number.NEGATIVE_INFINITY;

  const figures = (): ConnectionFigures => ({ open: all.size, ...counts });
  const peerOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
  const ofSource = (source: string) => bySource.get(source) ?? new Set<Connection>();

  const forgetUnknown = (connection: Connection) => {
    unknown.delete(connection);
    const same = ofSource(connection.source);
    same.delete(connection);
    if (same.size === 0) bySource.delete(connection.source);
  };
  const forget = (connection: Connection) => {
    all.delete(connection);
    forgetUnknown(connection);
  };
  const close = (connection: Connection, why: keyof typeof counts) => {
    forget(connection);
    connection.socket.destroy();
    counts[why]++;
    const nowMs = clock.monotonicMs();
    if (nowMs - noticedMs < noticeEveryMs) return;
    noticedMs = nowMs;
    onPressure({ ...figures(), caps, source: connection.source });
  };

  /** The oldest that has shown nothing and waits for nobody but its client: a whole request is ours to answer. */
  const oldestUnknown = (queue: Set<Connection>): Connection | undefined => {
    let looks = 0;
    for (const connection of queue) {
      if (looks++ >= maxLooks) return undefined;
      if (connection.hasCredential) forgetUnknown(connection);
      else if (connection.socket._httpMessage?.req?.complete) {
        queue.delete(connection);
        queue.add(connection);
      } else return connection;
    }
    return undefined;
  };
  const closeUnknownBeyond = (queue: Set<Connection>, most: number) => {
    while (queue.size > most) {
      const oldest = oldestUnknown(queue);
      if (!oldest || queue.size <= most) return;
      close(oldest, 'closed_unknown');
    }
  };

  const oldestIdle = (except: Connection): Connection | undefined => {
    let looks = 0;
    for (const connection of all) {
      if (looks++ >= maxLooks) return undefined;
      const isIdle = !connection.isUpgraded && connection.socket._httpMessage == null;
      if (isIdle && connection !== except) return connection;
      all.delete(connection);
      all.add(connection);
    }
    return undefined;
  };

  const makeRoom = (fresh: Connection) => {
    if (all.size <= caps.total - caps.reserved) return;
    const stranger = oldestUnknown(unknown);
    if (stranger && stranger !== fresh) return close(stranger, 'closed_unknown');
    const idle = oldestIdle(fresh);
    if (idle) return close(idle, 'closed_idle');
    if (all.size > caps.total) return close(fresh, 'refused');
    fresh.isReserved = true;
  };

  const onConnection = (socket: Socket) => {
    const address = plainAddress(socket.remoteAddress ?? '') ?? '';
    // Everybody behind a trusted proxy has its address.
    const source = proxies.trusts(address) ? '' : networkOf(address);
    const connection = { socket, source, hasCredential: false, isReserved: false, isUpgraded: false };
    (socket as Counted)[state] = connection;
    all.add(connection);
    unknown.add(connection);
    const peer = peerOf(socket);
    byPeer.set(peer, connection);
    socket.once('close', () => {
      if (byPeer.get(peer) === connection) byPeer.delete(peer);
      forget(connection);
    });
    if (source !== '') {
      const same = ofSource(source).add(connection);
      bySource.set(source, same);
      closeUnknownBeyond(same, caps.unknown_source);
    }
    closeUnknownBeyond(unknown, caps.unknown);
    // If all others are busy, the new connection was closed itself, and no other has to be.
    if (all.has(connection)) makeRoom(connection);
  };

  return {
    watch(server) {
      server.on('connection', onConnection);
      // Requests come by the socket that decrypts.
      server.on('secureConnection', (socket: Socket) => {
        const connection = byPeer.get(peerOf(socket));
        if (!connection) return;
        connection.socket = socket;
        (socket as Counted)[state] = connection;
      });
      server.on('upgrade', (_request: unknown, socket: Socket) => {
        const connection = (socket as Counted)[state];
        if (connection) connection.isUpgraded = true;
      });
      // What was served from the reserve makes room for the next.
      server.prependListener('request', ({ socket }, response) => {
        if (isReserved(socket)) response.shouldKeepAlive = false;
      });
    },
    figures,
  };
}
