/**
 * Watches the sockets of all connections of this process to PostgreSQL. The watch distinguishes a
 * slow store from one that is away, and measures how long the store was away. It closes connections
 * that lost a reply. Their statements then fail with `StoreUnavailable`, and operations retry them.
 */
import type { Socket } from 'node:net';
import type pg from 'pg';
import type { Clock } from '../../../base/clock.ts';
import { FailoverClient } from './failover-client.ts';
import { createLostAnswers, formatServer, type WatchedConnection } from './lost-answers.ts';

export interface StoreWatch {
  /** The class for pools and single connections. Its instances are watched from the first byte. */
  readonly Client: typeof FailoverClient;
  /** Whether statements have been waiting, or logins failing, for a while without any reply. */
  isAway(): boolean;
  /** How long the store has been away in total, including the current absence. */
  awayMs(): number;
  /** Called when the store answers again after it was away. */
  whenBack(listener: () => void): void;
  /** Open connections by application name, and how many of them wait for a reply. */
  connections(): Map<string, { open: number; busy: number }>;
  stop(): void;
}

/** Short compared to the other times here. A check costs a few additions per connection. */
const checkEveryMs = 500;
/**
 * The store counts as away this long after a connection failed during a statement or a login, if
 * there was no reply since.
 */
export const awayAfterFailureMs = 1_000;
/**
 * If no connection failed, the store counts as away after this time without a reply. It is longer
 * than a slow round trip.
 */
const awayAfterSilenceMs = 5_000;
/** A check this late means that this process stalled, not the store. */
const stalledMs = 4 * checkEveryMs;

/** Fields of `pg.Client` that its declared type lacks. */
interface ClientState {
  connection: { stream: Socket; once(event: 'end', listener: () => void): void };
  readyForQuery?: boolean;
  processID: number | null;
  _ending: boolean;
}

interface WatchedClient extends WatchedConnection {
  state: ClientState;
  /** Bytes read and written at the last check. */
  read: number;
  written: number;
  /** Bytes written before the check that first saw the current wait. */
  written_before: number;
}

export function watchStore({ clock, onLost }: { clock: Clock; onLost?(count: number): void }): StoreWatch {
  const watched = new Set<WatchedClient>();
  const listeners: (() => void)[] = [];
  const lost = createLostAnswers({ clock, connections: watched, onLost });
  let checkedMs = clock.monotonicMs();
  /**
   * Since when statements or logins have had no answer. Undefined while none waits; the store then
   * does not count as away.
   */
  let unansweredMs: number | undefined;
  let hasFailed = false;
  let hasFailedToConnect = false;
  let isAway = false;
  let totalAwayMs = 0;
  let cancel: (() => void) | undefined;

  const watchClient = (client: pg.Client, config: pg.ClientConfig) => {
    const state = client as unknown as ClientState;
    const each: WatchedClient = {
      state,
      config,
      read: 0,
      written: 0,
      written_before: 0,
      unread_bytes: 0,
      since_ms: clock.monotonicMs(),
      isWaiting: true,
      pid: () => state.processID,
      server: () => formatServer(client),
      drop: (error) => state.connection.stream.destroy(error),
    };
    watched.add(each);
    state.connection.once('end', () => {
      watched.delete(each);
      // Poolers and firewalls close idle connections, so this is no failure of the store.
      if (state._ending || state.readyForQuery === true) return;
      unansweredMs ??= clock.monotonicMs();
      hasFailed = true;
      if (state.processID === null) hasFailedToConnect = true;
    });
  };

  class Client extends FailoverClient {
    constructor(config: pg.ClientConfig) {
      super(config);
      watchClient(this, config);
    }
  }

  /** Returns whether the connection read anything since the last check. */
  const update = (each: WatchedClient, nowMs: number): boolean => {
    const { bytesRead = 0, bytesWritten = 0 } = each.state.connection.stream;
    const isWaiting = each.state.readyForQuery !== true;
    const hasRead = bytesRead !== each.read;
    if (hasRead || !isWaiting || !each.isWaiting) {
      each.since_ms = nowMs;
      each.written_before = each.written;
    }
    each.read = bytesRead;
    each.written = bytesWritten;
    each.unread_bytes = bytesWritten - each.written_before;
    each.isWaiting = isWaiting;
    return hasRead;
  };

  const silentMs = () => clock.monotonicMs() - (unansweredMs ?? clock.monotonicMs());
  const reset = () => {
    unansweredMs = undefined;
    hasFailed = false;
    hasFailedToConnect = false;
    isAway = false;
  };

  const check = () => {
    const nowMs = clock.monotonicMs();
    const isStalled = nowMs - checkedMs > stalledMs;
    checkedMs = nowMs;
    let hasAnswered = false;
    for (const each of watched) hasAnswered = update(each, nowMs) || hasAnswered;
    const waiting = [...watched].filter((each) => each.isWaiting);
    if (hasAnswered || isStalled) {
      const isBack = isAway && hasAnswered;
      if (isAway) totalAwayMs += silentMs();
      reset();
      if (isBack) for (const listener of listeners) listener();
    } else if (waiting.length > 0 || hasFailedToConnect) {
      unansweredMs ??= nowMs;
      if (silentMs() >= (hasFailed ? awayAfterFailureMs : awayAfterSilenceMs)) isAway = true;
    } else if (!isAway) reset();
    lost.inspect(waiting);
    cancel = clock.after(checkEveryMs, check);
  };
  cancel = clock.after(checkEveryMs, check);

  return {
    Client,
    isAway: () => isAway,
    awayMs: () => totalAwayMs + (isAway ? silentMs() : 0),
    whenBack: (listener) => listeners.push(listener),
    connections() {
      const counts = new Map<string, { open: number; busy: number }>();
      for (const { config, state } of watched) {
        const name = config.application_name ?? '';
        const { open, busy } = counts.get(name) ?? { open: 0, busy: 0 };
        counts.set(name, { open: open + 1, busy: busy + (state.readyForQuery === true ? 0 : 1) });
      }
      return counts;
    },
    stop() {
      cancel?.();
      lost.stop();
    },
  };
}
