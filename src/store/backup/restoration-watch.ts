/** Follows whether a restoration is open. While one is, this replica only observes. */
import { type Clock, pause } from '../../base/clock.ts';
import type { EvidenceTail } from '../evidence/tail.ts';
import { type Queryable, StoreUnavailable } from '../pg/database.ts';
import { readOpenRestoration } from './restorations.ts';

const retryMs = 500;

export interface RestorationWatch {
  /** Whether a restoration is open. Then nothing may be launched, released, judged or assigned. */
  isObserving(): boolean;
}

export interface FollowedRestoration extends RestorationWatch {
  /** Calls the listener when this replica may act again. */
  whenEnded(listener: () => void): void;
  /**
   * Resolves if the database is restored while this replica runs. Its operations and caches belong
   * to the former database, so the process must end.
   */
  began: Promise<Error>;
}

/** Reads the state before it returns, so that nothing acts on a restored database by mistake. */
export async function watchRestoration(needs: {
  db: Queryable;
  clock: Clock;
  tail: Pick<EvidenceTail, 'subscribe' | 'whenHistoryChanged'>;
  onError(error: unknown): void;
}): Promise<FollowedRestoration> {
  const { db, clock, tail, onError } = needs;
  const endListeners: (() => void)[] = [];
  const { promise: began, resolve: onBegan } = Promise.withResolvers<Error>();
  let isOpen: boolean | undefined;
  const apply = (isOpenNow: boolean) => {
    const wasOpen = isOpen;
    isOpen = isOpenNow;
    if (wasOpen === false && isOpenNow) onBegan(new Error('the database was restored; start the server again'));
    if (wasOpen && !isOpenNow) for (const listener of endListeners) listener();
  };
  const readAgain = async (): Promise<void> => {
    try {
      apply((await readOpenRestoration(db)) !== undefined);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) onError(error);
      await pause(clock, retryMs);
      await readAgain();
    }
  };
  // One read at a time, so that an earlier answer never replaces a later one.
  let reading = Promise.resolve();
  const queueRead = () => {
    reading = reading.then(readAgain);
  };
  tail.subscribe(({ kind }) => {
    // The first fact of a restored database is recorded together with the restoration.
    if (kind === 'evidence.restored' || kind === 'restoration.ended') queueRead();
  });
  tail.whenHistoryChanged(queueRead);
  const first = reading.then(async () => apply((await readOpenRestoration(db)) !== undefined));
  reading = first.catch(() => {});
  await first;
  return { isObserving: () => isOpen ?? true, whenEnded: (listener) => endListeners.push(listener), began };
}
