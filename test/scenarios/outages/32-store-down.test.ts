/** The store is gone for longer than a machine may be silent: beats are answered, nobody is blamed, nothing acknowledged is lost. */
import { Client } from 'pg';
import { expect } from 'vitest';
import { pause, secondsBetween, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { type Answer, callRoute } from '../../api/support/calls.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { claimsSteadyIngest } from '../support/broken-servers.ts';
import { type OwnPostgres, ownPostgres } from '../support/own-postgres.ts';
import { describeStory, type WaitFor } from '../support/scenario.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 3 };
/** As long as we look afterwards: past the time at which what was missed would be a verdict. */
const watchSeconds = heartbeat.stale_after_seconds + 1;
const awaySeconds = 2 * watchSeconds;
/** Together over while the store is away, and not before we have looked if the time away does not count. */
const provision_timeout_seconds = awaySeconds - 2;
const extendedBySeconds = 1;
const beatEveryMs = 300;
const machines = 6;

/**
 * The rules that could blame somebody. One that found no store looks again only after its usual time, which is longer than we
 * watch: here it comes back every second.
 */
const blaming = ['liveness', 'provision-deadline'];
const looksEverySeconds = 1;

const lookingOften = (composition: Composition): Composition => ({
  ...composition,
  sweeps: (registry, services) =>
    (composition.sweeps?.(registry, services) ?? registry).map((sweep) =>
      blaming.includes(sweep.name) ? { ...sweep, every_seconds: looksEverySeconds } : sweep,
    ),
});

/** Asked again and again, says whether each of these rules has begun a look since the first time, and it went well. */
async function looksFromNow({ client }: TestServer): Promise<() => Promise<boolean>> {
  const looks = async () => (await client.call('sweep-list', {})).items.filter(({ name }) => blaming.includes(name));
  const before = new Map((await looks()).map(({ name, runs }) => [name, runs]));
  // The next one to end may have begun before.
  const isAnew = (name: string, runs: number) => runs >= (before.get(name) ?? 0) + 2;
  return async () =>
    (await looks()).every(({ name, runs, error, waiting }) => isAnew(name, runs) && error === null && !waiting);
}

/** The brake would hide false verdicts; here it never holds, so that each would be seen. */
const document: PoolDocument = { driver: 'external', heartbeat, brake: { fraction: 1, min_nodes: 1_000_000 } };

interface Beating {
  ids: string[];
  answers: Answer[];
  /** The last one falls silent for good. */
  lose(): void;
  end(): Promise<void>;
}

/** Each on its own, as agents are: one that waits for its answer delays no other. */
async function beatingApart({ url, client }: TestServer): Promise<Beating> {
  const { token } = await client.call('join-token-create', { params: { pool: 'fleet' } });
  const answers: Answer[] = [];
  let over = false;
  let lost: string | undefined;
  const joined = await Promise.all(
    Array.from({ length: machines }, (_, i) =>
      callRoute(url, 'agent-register', { body: { join_token: token, name: `m-${i + 1}`, version: 'test' } }),
    ),
  );
  const credentials = joined.map(({ body }) => String(body.credential));
  const beat = (bearer: string) =>
    callRoute(url, 'agent-heartbeat', { body: { status: 'ready' } }, { bearer }).then((answer) => answers.push(answer));
  await Promise.all(credentials.map(beat));
  const loops = credentials.map(async (credential) => {
    while (!over && lost !== credential) {
      await pause(systemClock, beatEveryMs);
      await beat(credential);
    }
  });
  return {
    ids: joined.map(({ body }) => String(body.node_id)),
    answers,
    lose: () => {
      lost = credentials.at(-1);
    },
    async end() {
      over = true;
      await Promise.all(loops);
    },
  };
}

interface Outage {
  begin(store: OwnPostgres, other: Client): Promise<unknown>;
  end(store: OwnPostgres, other: Client): Promise<unknown>;
}

/** A connection beside the server's; it breaks when the store goes, and says so to nobody. */
async function somebodyElse(url: string): Promise<Client> {
  const other = new Client({ connectionString: url });
  other.on('error', () => {});
  await other.connect();
  return other;
}

const answered = (answer: Answer) =>
  answer.status === 200 || (answer.status === 503 && Number(answer.body.retry_after_seconds) > 0);

/** The store ends whatever became of the story and of those who were connected to it. */
async function tell(outage: Outage, composition: Composition, waitFor: WaitFor): Promise<void> {
  const store = await ownPostgres();
  try {
    const server = await inProcessServer({ database_url: store.url, composition: lookingOften(composition) });
    try {
      await tellOn(store, server, outage, waitFor);
    } finally {
      await server.stop();
    }
  } finally {
    await store.end();
  }
}

async function tellOn(store: OwnPostgres, server: TestServer, outage: Outage, waitFor: WaitFor): Promise<void> {
  const { client } = server;
  const other = await somebodyElse(store.url);
  const nodeNow = (id: string) => client.call('node-get', { params: { id } });
  const stood = async (id: string) => (await nodeNow(id)).status;
  let fleet: Beating | undefined;
  try {
    await client.call('pool-put', { params: { pool: 'fleet' }, body: document });
    fleet = await beatingApart(server);
    const { node } = await client.call('node-create', {
      body: { pool: 'fleet', name: 'expected', provision_timeout_seconds },
    });
    const expected = node.node_id;
    const { node: extended } = await client.call('node-act', {
      params: { id: expected, action: 'extend-deadline' },
      body: { reason: 'the courier is late', seconds: extendedBySeconds },
    });

    await outage.begin(store, other);
    const before = fleet.answers.length;
    await pause(systemClock, awaySeconds * 1000);
    const meanwhile = fleet.answers.slice(before);
    await outage.end(store, other);
    expect(meanwhile.length, 'beats are answered while the store is away').toBeGreaterThan(machines);
    for (const answer of meanwhile) expect(answered(answer), answer.text).toBe(true);

    // The first calls may still find a broken connection.
    await waitFor('the store to be back', () => stood(expected).catch(() => undefined));
    const watchMs = systemClock.monotonicMs() + watchSeconds * 1000;
    const haveLooked = await looksFromNow(server);
    const { ids } = fleet;
    await waitFor('the rules to have looked', async () => {
      await pause(systemClock, beatEveryMs);
      const enough = systemClock.monotonicMs() >= watchMs && (await haveLooked());
      const { status, status_since } = await nodeNow(expected);
      // On a busy machine its time may be up in earnest while we watch.
      const inTime = new Date(status_since) < secondsLater(new Date(extended.deadline_at ?? ''), awaySeconds);
      if (inTime) expect(status, 'a false verdict').toBe('provisioning');
      for (const id of ids) expect(await stood(id), 'a false verdict').toBe('ready');
      return enough;
    });
    const { gaps } = await client.call('brake-get', {});
    // Two clocks measure it, ours and the database's.
    expect(Math.max(...gaps.map((gap) => gap.seconds))).toBeGreaterThan(awaySeconds - 0.5);
    const query = { kind: 'node.deadline_moved', order: 'oldest' } as const;
    const { items } = await client.call('node-timeline', { params: { id: expected }, query });
    const [byHand, byGaps] = [true, false].map((hand) => items.filter((fact) => (fact.actor !== null) === hand));
    expect(byHand?.map((fact) => fact.layer)).toEqual(['operator']);
    // A busy machine may make us deaf at other times too; each gap moves once, and what began in one counts from its own beginning.
    const since = gaps.filter((gap) => gap.ended_at > node.status_since);
    expect(byGaps?.map((fact) => fact.layer)).toEqual(since.map(() => 'store'));
    const missed = since.reduce((sum, { started_at, ended_at }) => {
      const from = started_at > node.status_since ? started_at : node.status_since;
      return sum + secondsBetween(new Date(from), new Date(ended_at));
    }, 0);
    const moved = items.at(-1)?.data.set as { deadline_at: string };
    const given = secondsBetween(new Date(node.deadline_at ?? ''), new Date(moved.deadline_at));
    expect(given).toBeCloseTo(extendedBySeconds + missed, 2);

    fleet.lose();
    await waitFor('one that is really silent to be found', async () => (await stood(ids.at(-1) ?? '')) === 'offline');
    await waitFor('one that never came to be found', async () => (await stood(expected)) === 'failed');
    for (const id of ids.slice(0, -1)) {
      const { items } = await client.call('node-timeline', { params: { id }, query: { kind: 'node.offline' } });
      expect(items, 'a false verdict that was taken back').toEqual([]);
    }
  } finally {
    await fleet?.end();
    await other.end();
  }
}

const outages: Record<string, Outage> = {
  'the store falls silent': { begin: (store) => store.freeze(), end: (store) => store.thaw() },
  'the store goes away and comes back': { begin: (store) => store.stop(), end: (store) => store.startAgain() },
  'the store answers, but takes no beats': {
    begin: (_, other) => other.query('begin; lock table heartbeats in share mode'),
    end: (_, other) => other.query('commit'),
  },
};

for (const [name, outage] of Object.entries(outages))
  describeStory(name, (composition, waitFor) => tell(outage, composition, waitFor), [
    {
      broken: 'no record of when we could not hear',
      composition: claimsSteadyIngest,
      fails: /a false verdict/,
    },
  ]);
