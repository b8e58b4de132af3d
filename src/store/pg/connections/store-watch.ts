/**
 * Watches every connection to PostgreSQL of this process by what its socket reads. It tells a slow store from one that is
 * away, and counts how long it was away. A connection whose answer was lost is closed, and its statement fails with
 * `store_unavailable`; operations retry it.
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import type { Clock } from '../../../base/clock.ts';
import { createLostAnswers, type Waiting } from './lost-answers.ts';

export interface StoreWatch {
  /** For pools and single connections: connections of this class are watched from their first byte. */
  readonly Client: typeof pg.Client;
  /** `away`: nothing was answered for a while although something was asked. */
  isAway(): boolean;
  /** How long the store was away in all, including the present absence. */
  awayMs(): number;
  /** Called when the store answers again after it was away. */
  whenBack(listener: () => void): void;
  stop(): void;
}

/** Short against every bound that depends on it; a look costs a few additions per connection. */
const everyMs = 500;
/** A statement or a sign-in failed with its connection, and no answer since: away. */
const awayAfterFailureMs = 1_000;
/** No connection broke, but nobody is answered: longer than a slow network takes for a round trip. */
const awayAfterSilenceMs = 5_000;
/** A look that is so late says that this process stood still, not the store. */
const stoodStillMs = 4 * everyMs;

/** What the watch reads of `pg.Client`; not part of its declared type. */
interface ClientState {
  connection: { stream: Socket; once(event: 'end', listener: () => void): void };
  readyForQuery?: boolean;
  processID: number | null;
  _ending: boolean;
}

interface Watched extends Waiting {
  state: ClientState;
  /** At the last look. */
  read: number;
  written: number;
  /** Before the look at which the present wait was first seen. */
  written_before: number;
}

export function watchStore({ clock, onLost }: { clock: Clock; onLost?(count: number): void }): StoreWatch {
  const watched = new Set<Watched>();
  const listeners: (() => void)[] = [];
  const lost = createLostAnswers({ clock, onLost });
  let lookedMs = clock.monotonicMs();
  /** Since when statements have been waiting without any answer. A store without statements is quiet, not away. */
  let unansweredMs: number | undefined;
  let hasFailed = false;
  let hasFailedToConnect = false;
  let away = false;
  let totalAwayMs = 0;
  let cancel: (() => void) | undefined;

  const add = (client: pg.Client, config: pg.ClientConfig) => {
    const state = client as unknown as ClientState;
    const each: Watched = {
      state,
      config,
      read: 0,
      written: 0,
      written_before: 0,
      unread_bytes: 0,
      since_ms: clock.monotonicMs(),
      isWaiting: true,
      pid: () => state.processID,
      drop: (error) => state.connection.stream.destroy(error),
    };
    watched.add(each);
    state.connection.once('end', () => {
      watched.delete(each);
      // Poolers and firewalls close idle connections; that says nothing about the store.
      if (state._ending || state.readyForQuery === true) return;
      unansweredMs ??= clock.monotonicMs();
      hasFailed = true;
      if (state.processID === null) hasFailedToConnect = true;
    });
  };

  class Client extends pg.Client {
    constructor(config: pg.ClientConfig) {
      super(config);
      add(this, config);
    }
  }

  /** Says whether anything was read since the last look. */
  const read = (each: Watched, nowMs: number): boolean => {
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
  const forget = () => {
    unansweredMs = undefined;
    hasFailed = false;
    hasFailedToConnect = false;
    away = false;
  };

  const look = () => {
    const nowMs = clock.monotonicMs();
    const stoodStill = nowMs - lookedMs > stoodStillMs;
    lookedMs = nowMs;
    let answered = false;
    for (const each of watched) answered = read(each, nowMs) || answered;
    const waiting = [...watched].filter((each) => each.isWaiting);
    if (answered || stoodStill) {
      const isBack = away && answered;
      if (away) totalAwayMs += silentMs();
      forget();
      if (isBack) for (const listener of listeners) listener();
    } else if (waiting.length > 0 || hasFailedToConnect) {
      unansweredMs ??= nowMs;
      if (silentMs() >= (hasFailed ? awayAfterFailureMs : awayAfterSilenceMs)) away = true;
    } else if (!away) forget();
    lost.look(waiting);
    cancel = clock.after(everyMs, look);
  };
  cancel = clock.after(everyMs, look);

  return {
    Client,
    isAway: () => away,
    awayMs: () => totalAwayMs + (away ? silentMs() : 0),
    whenBack: (listener) => listeners.push(listener),
    stop() {
      cancel?.();
      lost.stop();
    },
  };
}
