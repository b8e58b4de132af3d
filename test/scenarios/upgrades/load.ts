/** A steady load of clients: they allocate and release, read lists, and follow the event stream. */
import { randomUUID } from 'node:crypto';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { streamChanges } from '../../../src/cli/connection/event-stream.ts';
import { type Client, createClient, RequestRefused } from '../../../src/contract/client.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import { routes } from '../../../src/contract/routes.ts';
import { release, waitForStatus } from '../../support/allocations.ts';
import { until } from '../../support/until.ts';

/** Another connection is tried every 250 ms. */
const connectionTries = 40;
const readEveryMs = 250;
const turnSeconds = 150;

export interface Load {
  /** Allocations of all clients so far. */
  allocation_ids: readonly string[];
  /** Calls that a client repeated, by the reason. */
  repeated: ReadonlyMap<string, number>;
  /** How often the stream reported facts of this kind about the allocation. */
  streamed(allocation_id: string, kind: string): number;
  reconnects(): number;
  /** Resolves when each client has allocated and released once more from the beginning. */
  nextTurn(): Promise<void>;
  /** Lets each client finish what it began. Fails if a call of any client failed. */
  stop(): Promise<void>;
}

/** Repeats a call if the server says when. */
const repeatWhenAsked = (client: Client, onRepeat: (reason: string) => void): Client => ({
  ...client,
  call: async (name, input) => {
    for (;;) {
      try {
        return await client.call(name, input);
      } catch (error) {
        const problem = error instanceof RequestRefused ? error.problem : undefined;
        if (problem?.retry_after_seconds === undefined) throw error;
        onRepeat(problem.code);
        await pause(systemClock, 1000 * problem.retry_after_seconds);
      }
    }
  },
});

/** One client for each name in `pools`, one that reads lists, and one that follows the stream. */
export function startLoad({ url, token, pools }: { url: string; token: string; pools: readonly string[] }): Load {
  const stopping = new AbortController();
  const repeated = new Map<string, number>();
  const countRepeat = (reason: string) => void repeated.set(reason, (repeated.get(reason) ?? 0) + 1);
  const client = repeatWhenAsked(
    createClient({
      base_url: url,
      token,
      addresses: routes,
      retries: connectionTries,
      fetch: async (...request) => {
        try {
          return await fetch(...request);
        } catch (error) {
          countRepeat('no connection');
          throw error;
        }
      },
    }),
    countRepeat,
  );
  const allocation_ids: string[] = [];
  const failures: unknown[] = [];
  /** The number of ended turns of each client. */
  const turns = pools.map(() => 0);

  const allocateAndRelease = async (pool: string, index: number) => {
    while (!stopping.signal.aborted) {
      const { allocation } = await client.call('allocation-create', {
        body: { pool, name: `client-${index}` },
        idempotency_key: randomUUID(),
      });
      const { allocation_id } = allocation;
      allocation_ids.push(allocation_id);
      await waitForStatus(client, allocation_id, 'active');
      await release(client, allocation_id);
      await waitForStatus(client, allocation_id, 'released');
      turns[index] = (turns[index] ?? 0) + 1;
    }
  };

  const readLists = async () => {
    while (!stopping.signal.aborted) {
      await client.call('overview-get', {});
      await client.call('node-list', {});
      await client.call('allocation-list', {});
      const allocation_id = allocation_ids.at(-1);
      if (allocation_id) await client.call('timeline-get', { query: { allocation_id } });
      await pause(systemClock, readEveryMs, stopping.signal);
    }
  };

  const streamEnd = new AbortController();
  const streamedFacts = new Map<string, number>();
  let openings = 0;
  const followStream = async () => {
    const changes = streamChanges({
      clock: systemClock,
      signal: streamEnd.signal,
      async open(last_event_id, signal) {
        const headers = { ...client.headers(), ...(last_event_id && { 'last-event-id': last_event_id }) };
        const reply = await fetch(client.url('stream-open', { query: { topics: 'evidence' } }), { headers, signal });
        if (!reply.ok || !reply.body) throw new Error(`the stream answered ${reply.status}`);
        return reply.body;
      },
    });
    for await (const change of changes) {
      if (change.type === 'open') openings++;
      if (change.type !== 'event' || change.event.event !== 'evidence') continue;
      const { kind, allocation_id } = JSON.parse(change.event.data) as Evidence;
      const key = `${allocation_id} ${kind}`;
      streamedFacts.set(key, (streamedFacts.get(key) ?? 0) + 1);
    }
  };

  const collectFailure = (error: unknown) => void failures.push(error);
  const working = [...pools.map(allocateAndRelease), readLists()].map((work) => work.catch(collectFailure));
  const following = followStream().catch(collectFailure);
  const throwFailure = () => {
    if (failures.length > 0) throw failures[0];
  };
  const streamed = (allocation_id: string, kind: string) => streamedFacts.get(`${allocation_id} ${kind}`) ?? 0;

  return {
    allocation_ids,
    repeated,
    streamed,
    reconnects: () => openings - 1,
    async nextTurn() {
      // The turn that runs now began earlier, so it does not count.
      const goals = turns.map((count) => count + 2);
      await until(
        'each client to allocate and release once more',
        () => {
          throwFailure();
          return goals.every((goal, index) => (turns[index] ?? 0) >= goal);
        },
        { seconds: turnSeconds },
      );
    },
    async stop() {
      stopping.abort();
      await Promise.all(working);
      throwFailure();
      await until('the stream to report the last release', () =>
        allocation_ids.every((id) => streamed(id, 'allocation.released') > 0),
      );
      streamEnd.abort();
      await following;
      throwFailure();
    },
  };
}
