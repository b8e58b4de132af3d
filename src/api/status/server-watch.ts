/**
 * Looks for problems of this replica every few seconds, and remembers since when each has lasted.
 * Logs each once when it begins and once when it ends.
 */
import { type Clock, now } from '../../base/clock.ts';
import type { Log } from '../../base/telemetry/log.ts';
import {
  findServerProblems,
  type ServerFacts,
  type ServerProblem,
  serverProblemCatalogue,
  serverProblemKey,
  serverProblemSays,
} from '../../lifecycle/findings/server-problems.ts';

export interface LastingProblem {
  problem: ServerProblem;
  since: Date;
}

export interface ServerWatch {
  /** Looks again if the last look is old. Concurrent callers share one look. */
  look(): Promise<{ facts: ServerFacts; problems: LastingProblem[] }>;
  stop(): void;
}

const everyMs = 10_000;
/** Callers of the API cause a look at most this often. */
const freshMs = 2_000;
/** A figure near its limit would otherwise begin and end a problem with each look. */
const endsAfterMs = 15_000;

export function watchServer(needs: {
  clock: Clock;
  log: Pick<Log, 'warn' | 'info' | 'error'>;
  readFacts(): Promise<ServerFacts>;
}): ServerWatch {
  const { clock, log, readFacts } = needs;
  const open = new Map<string, LastingProblem & { seenMs: number }>();
  let latest: { facts: ServerFacts; lookedMs: number } | undefined;
  let looking: Promise<ServerFacts> | undefined;
  let cancel: () => void = () => {};

  const note = (facts: ServerFacts) => {
    const nowMs = clock.monotonicMs();
    for (const problem of findServerProblems(facts)) {
      const key = serverProblemKey(problem);
      const known = open.get(key);
      open.set(key, { problem, since: known?.since ?? now(clock), seenMs: nowMs });
      if (known) continue;
      const { title, remedy } = serverProblemCatalogue[problem.code];
      log.warn({ ...problem, says: serverProblemSays(problem), remedy }, `problem of this server: ${title}`);
    }
    for (const [key, { problem, since, seenMs }] of open) {
      if (nowMs - seenMs < endsAfterMs) continue;
      open.delete(key);
      const { title } = serverProblemCatalogue[problem.code];
      log.info({ code: problem.code, since }, `problem of this server is over: ${title}`);
    }
    latest = { facts, lookedMs: nowMs };
    return facts;
  };
  const lookNow = (): Promise<ServerFacts> => {
    looking ??= readFacts()
      .then(note)
      .finally(() => {
        looking = undefined;
      });
    return looking;
  };
  const schedule = () => {
    cancel = clock.after(everyMs, () => {
      lookNow().catch((error: unknown) => log.error({ error }, 'could not look for problems of this server'));
      schedule();
    });
  };
  schedule();

  return {
    async look() {
      const isFresh = latest && clock.monotonicMs() - latest.lookedMs < freshMs;
      const facts = isFresh && latest ? latest.facts : await lookNow();
      const problems = [...open.values()]
        .map(({ problem, since }) => ({ problem, since }))
        .sort((a, b) => a.since.getTime() - b.since.getTime());
      return { facts, problems };
    },
    stop: () => cancel(),
  };
}
