/**
 * The store is down for longer than the stale time: heartbeats are answered, no machine is blamed,
 * and nothing acknowledged is lost.
 */
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
/** Past the time at which the missed heartbeats would lead to a verdict. */
const watchSeconds = heartbeat.stale_after_seconds + 1;
const awaySeconds = 2 * watchSeconds;
/** Expires during the outage or, if the outage does not count, after the check. */
const provision_timeout_seconds = awaySeconds - 2;
const extendedBySeconds = 1;
const beatEveryMs = 300;
const machines = 6;

/**
 * The rules that could blame a machine. After an error they run again only at their usual interval,
 * which is longer than the watch; here they run every second.
 */
const blamingRules = ['liveness', 'provision-deadline'];
const looksEverySeconds = 1;

const withFrequentRules = (composition: Composition): Composition => ({
  ...composition,
  sweeps: (registry, services) =>
    (composition.sweeps?.(registry, services) ?? registry).map((sweep) =>
      blamingRules.includes(sweep.name) ? { ...sweep, every_seconds: looksEverySeconds } : sweep,
    ),
});

/**
 * Returns a function that reports whether each of these rules has completed a run that started
 * after this call.
 */
async function ruleRunsFromNow({ client }: TestServer): Promise<() => Promise<boolean>> {
  const looks = async () =>
    (await client.call('sweep-list', {})).items.filter(({ name }) => blamingRules.includes(name));
  const before = new Map((await looks()).map(({ name, runs }) => [name, runs]));
  // The next run to end may have started before.
  const isAnew = (name: string, runs: number) => runs >= (before.get(name) ?? 0) + 2;
  return async () =>
    (await looks()).every(({ name, runs, error, waiting }) => isAnew(name, runs) && error === null && !waiting);
}

/** The brake would hide wrong verdicts, so it is disabled here. */
const document: PoolDocument = { driver: 'external', heartbeat, brake: { fraction: 1, min_nodes: 1_000_000 } };

interface Beating {
  ids: string[];
  answers: Answer[];
  /** The last machine goes silent for good. */
  lose(): void;
  end(): Promise<void>;
}

/** Each machine beats on its own, like an agent: one that waits for its answer delays no other. */
async function beatSeparately({ url, client }: TestServer): Promise<Beating> {
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

/** Another connection to the store; it breaks with the store, without an unhandled error. */
async function otherConnection(url: string): Promise<Client> {
  const other = new Client({ connectionString: url });
  other.on('error', () => {});
  await other.connect();
  return other;
}

const answered = (answer: Answer) =>
  answer.status === 200 || (answer.status === 503 && Number(answer.body.retry_after_seconds) > 0);

/** The database ends whatever happened to the story and its connections. */
async function runOutage(outage: Outage, composition: Composition, waitFor: WaitFor): Promise<void> {
  const store = await ownPostgres();
  try {
    const server = await inProcessServer({ database_url: store.url, composition: withFrequentRules(composition) });
    try {
      await checkOutage(store, server, outage, waitFor);
    } finally {
      await server.stop();
    }
  } finally {
    await store.end();
  }
}

async function checkOutage(store: OwnPostgres, server: TestServer, outage: Outage, waitFor: WaitFor): Promise<void> {
  const { client } = server;
  const other = await otherConnection(store.url);
  const nodeNow = (id: string) => client.call('node-get', { params: { id } });
  const stood = async (id: string) => (await nodeNow(id)).status;
  let fleet: Beating | undefined;
  try {
    await client.call('pool-put', { params: { pool: 'fleet' }, body: document });
    fleet = await beatSeparately(server);
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

    // The first calls may still hit a broken connection.
    await waitFor('the store to be back', () => stood(expected).catch(() => undefined));
    const watchMs = systemClock.monotonicMs() + watchSeconds * 1000;
    const haveLooked = await ruleRunsFromNow(server);
    const { ids } = fleet;
    await waitFor('the rules to have looked', async () => {
      await pause(systemClock, beatEveryMs);
      const enough = systemClock.monotonicMs() >= watchMs && (await haveLooked());
      const { status, status_since } = await nodeNow(expected);
      // On a busy host its deadline may really pass while we watch.
      const inTime = new Date(status_since) < secondsLater(new Date(extended.deadline_at ?? ''), awaySeconds);
      if (inTime) expect(status, 'a false verdict').toBe('provisioning');
      for (const id of ids) expect(await stood(id), 'a false verdict').toBe('ready');
      return enough;
    });
    const { gaps } = await client.call('brake-get', {});
    // The two sides use different clocks: this process's and the database's.
    expect(Math.max(...gaps.map((gap) => gap.seconds))).toBeGreaterThan(awaySeconds - 0.5);
    const query = { kind: 'node.deadline_moved', order: 'oldest' } as const;
    const { items } = await client.call('node-timeline', { params: { id: expected }, query });
    const [byHand, byGaps] = [true, false].map((hand) => items.filter((fact) => (fact.actor !== null) === hand));
    expect(byHand?.map((fact) => fact.layer)).toEqual(['operator']);
    // A busy host may miss heartbeats at other times too. Each gap extends deadlines once, counted
    // from the later of its start and the deadline's start.
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
  describeStory(name, (composition, waitFor) => runOutage(outage, composition, waitFor), [
    {
      broken: 'no record of when ingest was down',
      composition: claimsSteadyIngest,
      fails: /a false verdict/,
    },
  ]);
