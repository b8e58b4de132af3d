/** Connects the stream to the cache, and exposes the state of the stream. */
import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { type CancelTimer, systemClock } from '../../../src/base/clock.ts';
import { applyChanges } from '../api/cache/apply.ts';
import { type Change, journal, type Topic } from '../api/cache/journal.ts';
import { keys } from '../api/cache/keys.ts';
import { urlOf } from '../api/client.ts';
import type { ServerEvent } from './sse.ts';
import { staleAfter } from './stale.ts';
import { LiveStream, type StreamState } from './stream.ts';

/** Changes are batched for this long, so a burst costs one render. */
const batchMs = 60;
/** The stream carries no counts, so they are read again after a change, at most this often. */
const recountMs = 2000;
/** A tab hidden this long closes its connection, because browsers allow only a few per server. */
const hiddenMs = 30_000;

const topics: ReadonlySet<string> = new Set<Topic>(['node', 'allocation', 'operation', 'evidence']);

let state: StreamState = 'connecting';
const watchers = new Set<() => void>();

function setState(next: StreamState): void {
  if (next === state) return;
  state = next;
  for (const watcher of watchers) watcher();
}

const watch = (watcher: () => void) => {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
};

export const useStreamState = (): StreamState => useSyncExternalStore(watch, () => state);

/** Keeps `cache` live until the returned function is called. */
export function startLive(cache: QueryClient, onSignedOut: () => void): () => void {
  const inbox = new Inbox(cache);
  const stream = new LiveStream({
    url: urlOf('stream-open', { query: { topics: 'nodes,allocations,operations,evidence' } }),
    clock: systemClock,
    fetch: (input, init) => fetch(input, init),
    onEvent: (event) => inbox.receive(event),
    onState: setState,
    // Data read before the stream opened, or while it was broken, may have missed a change.
    onOpen: () => void cache.invalidateQueries({ predicate: (query) => query.queryKey[0] !== 'session' }),
    onSignedOut,
  });

  let cancelPause: CancelTimer | undefined;
  const followVisibility = () => {
    cancelPause?.();
    if (document.hidden) cancelPause = systemClock.after(hiddenMs, () => stream.stop());
    else stream.start();
  };
  document.addEventListener('visibilitychange', followVisibility);
  stream.start();

  return () => {
    cancelPause?.();
    document.removeEventListener('visibilitychange', followVisibility);
    stream.stop('connecting');
  };
}

class Inbox {
  readonly #cache: QueryClient;
  #pending: Change[] = [];
  readonly #staleKeys = new Set<readonly unknown[]>();

  constructor(cache: QueryClient) {
    this.#cache = cache;
  }

  receive({ event, data }: ServerEvent): void {
    if (!topics.has(event)) return;
    if (this.#pending.length === 0) systemClock.after(batchMs, () => this.#flush());
    // Not validated, because the events come from the server that served this page.
    this.#pending.push({ topic: event, value: JSON.parse(data) } as Change);
  }

  #flush(): void {
    const changes = this.#pending;
    this.#pending = [];
    journal.add(changes);
    applyChanges(this.#cache, changes);
    const { explainedIds, immediate, delayed } = staleAfter(changes);
    for (const queryKey of immediate) void this.#cache.invalidateQueries({ queryKey });
    for (const queryKey of explainedIds.size > 0 ? [keys.allExplanations(), keys.allAllocationActions()] : [])
      void this.#cache.invalidateQueries({
        queryKey,
        predicate: ({ queryKey }) => explainedIds.has(String(queryKey.at(-1))),
      });
    this.#recountSoon(delayed);
  }

  #recountSoon(stale: (readonly unknown[])[]): void {
    if (stale.length === 0) return;
    if (this.#staleKeys.size === 0) systemClock.after(recountMs, () => this.#recount());
    for (const queryKey of stale) this.#staleKeys.add(queryKey);
  }

  #recount(): void {
    const staleKeys = [...this.#staleKeys];
    this.#staleKeys.clear();
    for (const queryKey of staleKeys) void this.#cache.invalidateQueries({ queryKey });
  }
}
