/**
 * Decides which connections to close when more are open than this process may hold. The oldest
 * connections without a credential go first, so that slow clients cannot keep others out. Idle
 * connections go next. The last free connections are reserved for short requests and for people.
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
  /** The part of `total` for short requests and people. Agents cannot wait or stream there. */
  reserved: number;
  /**
   * Connections without a credential, in total and per source network. The oldest beyond these
   * limits are closed. Machines identify themselves at once, so many of them may share an address.
   */
  unknown: number;
  unknown_source: number;
}

/** Files that the server needs for the database, logs, child processes and so on. */
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
  /** Counts the connections to this server from now on. */
  watch(server: Server): void;
  figures(): ConnectionFigures;
}

/** A connection is stored on its socket, so that a request costs no look-up. */
const connectionKey = Symbol('connection');
interface Connection {
  /** `_httpMessage` is Node's current response on this socket; null between requests. */
  socket: Socket & { _httpMessage?: { req?: { complete?: boolean } } | null };
  source: string;
  hasCredential: boolean;
  /** The connection is one of the reserved ones. */
  isReserved: boolean;
  /** The connection is a stream, which is never idle. */
  isUpgraded: boolean;
}
type CountedSocket = { [connectionKey]?: Connection };

/** Marks a connection on which a request had a valid credential. */
export function markIdentified(socket: object): void {
  const connection = (socket as CountedSocket)[connectionKey];
  if (connection) connection.hasCredential = true;
}

const isReserved = (socket: object): boolean => (socket as CountedSocket)[connectionKey]?.isReserved ?? false;

/** Long waits of machines, which are refused on a reserved connection. */
const longWaits: readonly OperationName[] = ['agent-task-next', 'agent-stream'];
const retryAfterSeconds = 5;

/** Call this once the caller is identified. */
export function admitOnConnection({ raw, person, agent_session, relay }: FastifyRequest, name: OperationName): void {
  if (person || agent_session || relay) markIdentified(raw.socket);
  if (longWaits.includes(name) && isReserved(raw.socket))
    throw new ApiProblem('rate_limited', {
      detail: 'This replica has no connection left for long waits.',
      retry_after_seconds: retryAfterSeconds,
    });
}

const noticeEveryMs = 10_000;
/** Connections examined per search for one to close; busy ones move to the end of the queue. */
const maxExamined = 256;

export function createConnections(needs: {
  clock: Clock;
  caps: ConnectionCaps;
  proxies: TrustedProxies;
  /** Called at most every 10 s while connections are closed or refused. */
  onPressure(figures: ConnectionFigures & { caps: ConnectionCaps; source: string }): void;
}): Connections {
  const { clock, caps, proxies, onPressure } = needs;
  /** Oldest first. */
  const all = new Set<Connection>();
  const unknown = new Set<Connection>();
  const bySource = new Map<string, Set<Connection>>();
  const byPeer = new Map<string, Connection>();
  const counts = { closed_unknown: 0, closed_idle: 0, refused: 0 };
  let lastNoticeMs = Number.NEGATIVE_INFINITY;

  const figures = (): ConnectionFigures => ({ open: all.size, ...counts });
  const peerOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
  const connectionsOf = (source: string) => bySource.get(source) ?? new Set<Connection>();

  const forgetUnknown = (connection: Connection) => {
    unknown.delete(connection);
    const sameSource = connectionsOf(connection.source);
    sameSource.delete(connection);
    if (sameSource.size === 0) bySource.delete(connection.source);
  };
  const forget = (connection: Connection) => {
    all.delete(connection);
    forgetUnknown(connection);
  };
  const close = (connection: Connection, reason: keyof typeof counts) => {
    forget(connection);
    connection.socket.destroy();
    counts[reason]++;
    const nowMs = clock.monotonicMs();
    if (nowMs - lastNoticeMs < noticeEveryMs) return;
    lastNoticeMs = nowMs;
    onPressure({ ...figures(), caps, source: connection.source });
  };

  /** Finds the oldest connection without a credential that is not waiting for our answer. */
  const findOldestUnknown = (queue: Set<Connection>): Connection | undefined => {
    let examined = 0;
    for (const connection of queue) {
      if (examined++ >= maxExamined) return undefined;
      if (connection.hasCredential) forgetUnknown(connection);
      else if (connection.socket._httpMessage?.req?.complete) {
        queue.delete(connection);
        queue.add(connection);
      } else return connection;
    }
    return undefined;
  };
  const closeUnknownBeyond = (queue: Set<Connection>, max: number) => {
    while (queue.size > max) {
      const oldest = findOldestUnknown(queue);
      if (!oldest || queue.size <= max) return;
      close(oldest, 'closed_unknown');
    }
  };

  const findOldestIdle = (except: Connection): Connection | undefined => {
    let examined = 0;
    for (const connection of all) {
      if (examined++ >= maxExamined) return undefined;
      const isIdle = !connection.isUpgraded && connection.socket._httpMessage == null;
      if (isIdle && connection !== except) return connection;
      all.delete(connection);
      all.add(connection);
    }
    return undefined;
  };

  const makeRoom = (newest: Connection) => {
    if (all.size <= caps.total - caps.reserved) return;
    const oldest = findOldestUnknown(unknown);
    if (oldest && oldest !== newest) return close(oldest, 'closed_unknown');
    const idle = findOldestIdle(newest);
    if (idle) return close(idle, 'closed_idle');
    if (all.size > caps.total) return close(newest, 'refused');
    newest.isReserved = true;
  };

  const onConnection = (socket: Socket) => {
    const address = plainAddress(socket.remoteAddress ?? '') ?? '';
    // All callers behind a trusted proxy share its address.
    const source = proxies.trusts(address) ? '' : networkOf(address);
    const connection = { socket, source, hasCredential: false, isReserved: false, isUpgraded: false };
    (socket as CountedSocket)[connectionKey] = connection;
    all.add(connection);
    unknown.add(connection);
    const peer = peerOf(socket);
    byPeer.set(peer, connection);
    socket.once('close', () => {
      if (byPeer.get(peer) === connection) byPeer.delete(peer);
      forget(connection);
    });
    if (source !== '') {
      const sameSource = connectionsOf(source).add(connection);
      bySource.set(source, sameSource);
      closeUnknownBeyond(sameSource, caps.unknown_source);
    }
    closeUnknownBeyond(unknown, caps.unknown);
    // If all others were busy, the limits above closed the new connection itself.
    if (all.has(connection)) makeRoom(connection);
  };

  return {
    watch(server) {
      server.on('connection', onConnection);
      // With TLS, requests arrive on the decrypting socket.
      server.on('secureConnection', (socket: Socket) => {
        const connection = byPeer.get(peerOf(socket));
        if (!connection) return;
        connection.socket = socket;
        (socket as CountedSocket)[connectionKey] = connection;
      });
      server.on('upgrade', (_request: unknown, socket: Socket) => {
        const connection = (socket as CountedSocket)[connectionKey];
        if (connection) connection.isUpgraded = true;
      });
      // A reserved connection serves one request and closes.
      server.prependListener('request', ({ socket }, response) => {
        if (isReserved(socket)) response.shouldKeepAlive = false;
      });
    },
    figures,
  };
}
