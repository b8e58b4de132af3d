/**
 * Journals in memory and on virtual time. The store replaces the database: it survives the crash of
 * an engine, and several engines can share it, as replicas do.
 */
import type { Clock } from '../base/clock.ts';
import type { Json, OperationRun } from './engine.ts';
import { type JournalEntry, neverSettle, type RunJournal, type Topic } from './run-journal.ts';

/** Thrown by a fault hook to make the execution stop and record nothing more. */
export class SimulatedCrash extends Error {
  override name = 'SimulatedCrash';
}

/** Hooks around every recorded effect. `after` is called before the result is recorded. */
export interface Faults {
  before?(run: OperationRun, step: string, tryNumber: number): void | Promise<void>;
  after?(run: OperationRun, step: string, tryNumber: number): void | Promise<void>;
}

interface StoredEntry {
  step: string;
  /** Set when a wait begins, so that after a restart the wait lasts only for the remaining time. */
  deadline_ms?: number;
  /** Stored as JSON text, so that only data can be stored, as in a database. */
  answer?: string;
}

export interface StoredRun {
  run: OperationRun;
  executor_id: string;
  /**
   * The execution that may record results. It changes when another execution takes the run over.
   */
  owner: symbol;
  ended: boolean;
  entries: StoredEntry[];
  unread: Set<Topic>;
  cancel_sent: boolean;
  /** Called when a message arrives. */
  listeners: Set<() => void>;
}

export type VirtualStore = Map<string, StoredRun>;

export const createVirtualStore = (): VirtualStore => new Map();

export function deliver(stored: StoredRun, topic: Topic): void {
  stored.unread.add(topic);
  for (const listener of [...stored.listeners]) listener();
}

interface VirtualJournalParts {
  stored: StoredRun;
  owner: symbol;
  clock: Clock;
  faults: Faults;
  /** Aborting this controller kills the execution. */
  controller: AbortController;
}

export function createVirtualJournal(parts: VirtualJournalParts): RunJournal {
  const { stored, owner, clock, faults, controller } = parts;
  const { promise: divergence, resolve: diverge } = Promise.withResolvers<Error>();
  let position = 0;

  const isLost = () => controller.signal.aborted || stored.owner !== owner;

  /**
   * The entry at this position; undefined if the code requests another entry than the recorded one.
   */
  const entryAt = (index: number, step: string): StoredEntry | undefined => {
    const entry = stored.entries[index] ?? { step };
    if (entry.step === step) return entry;
    diverge(new Error(`the journal has ${entry.step} at position ${index}, but the operation requested ${step}`));
    return undefined;
  };

  /** Calls a fault hook, and returns whether the execution may continue. */
  const passesHook = async (hook: Faults['before'], entry: JournalEntry): Promise<boolean> => {
    try {
      await hook?.(stored.run, entry.step, entry.try);
    } catch (error) {
      if (!(error instanceof SimulatedCrash)) throw error;
      controller.abort();
    }
    return !isLost();
  };

  const waitForMessageOrTimeout = (atMs: number) =>
    new Promise<void>((resolve) => {
      const finish = () => {
        cancelTimer();
        stored.listeners.delete(finish);
        controller.signal.removeEventListener('abort', finish);
        resolve();
      };
      const cancelTimer = clock.after(atMs - clock.nowMs(), finish);
      stored.listeners.add(finish);
      controller.signal.addEventListener('abort', finish);
    });

  return {
    stopSignal: controller.signal,
    divergence,

    async record<T extends Json>(request: JournalEntry, effect: () => Promise<T>): Promise<T> {
      if (isLost()) return neverSettle();
      const index = position++;
      const entry = entryAt(index, request.step);
      if (!entry) return neverSettle();
      if (entry.answer === undefined) {
        if (!(await passesHook(faults.before, request))) return neverSettle();
        const answer = JSON.stringify(await effect());
        if (!(await passesHook(faults.after, request))) return neverSettle();
        entry.answer = answer;
        stored.entries[index] = entry;
      }
      return JSON.parse(entry.answer) as T;
    },

    async receive(topic, seconds) {
      if (isLost()) return neverSettle();
      const index = position++;
      const entry = entryAt(index, `engine:receive-${topic}`);
      if (!entry) return neverSettle();
      entry.deadline_ms ??= clock.nowMs() + Math.max(0, seconds) * 1000;
      stored.entries[index] = entry;
      while (entry.answer === undefined) {
        if (isLost()) return neverSettle();
        const received = stored.unread.delete(topic);
        if (received || clock.nowMs() >= entry.deadline_ms) entry.answer = JSON.stringify(received);
        else await waitForMessageOrTimeout(entry.deadline_ms);
      }
      return entry.answer === 'true';
    },

    wasCancelSent: async () => stored.cancel_sent,
  };
}
