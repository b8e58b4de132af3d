/**
 * Everything restarts while ten thousand machines serve: the control plane missed heartbeats, and
 * no machine is blamed for it.
 */
import { expect } from 'vitest';
import { pause, now as present, secondsBetween, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { type Database, openDatabase } from '../../../src/store/pg/database.ts';
import { databaseClock } from '../../../src/store/pg/database-clock.ts';
import { beatAs, placedCredential, placedRows, placeNodes } from '../../../src/store/testing/placed-nodes.ts';
import { testDatabase } from '../../support/database.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { claimsSteadyIngest } from '../support/broken-servers.ts';
import { sendBeats } from '../support/fleet.ts';
import { describeStory } from '../support/scenario.ts';

const serving = 10_000;
const booting = 300;
const starting = 100;
/**
 * Twice the shipped numbers, for a busy host. After the restart the server looks up every machine
 * again, and all must be heard before the first may be missed.
 */
const heartbeat = { interval_seconds: 20, stale_after_seconds: 60 };
/** Past the time at which the missed heartbeats would lead to a verdict. */
const watchSeconds = heartbeat.stale_after_seconds + 2;
/**
 * Less than the outage, so that without the recorded gap it would be overdue. Much more than the
 * watch, because placing the machines and restarting the server take time on a busy host.
 */
const leftSeconds = 6 * watchSeconds;
const awaySeconds = leftSeconds + heartbeat.interval_seconds;

/** The brake would hide wrong verdicts, so it is disabled here. */
const noBrake = { fraction: 1, min_nodes: 1_000_000 };

async function fill(db: Database): Promise<void> {
  const at = present(await databaseClock(db));
  const since = secondsLater(at, -600);
  const inFlight = { pool: 'fleet', since, deadline_at: secondsLater(at, leftSeconds) } as const;
  const ready = await placeNodes(db, { pool: 'fleet', count: serving, since });
  await placeNodes(db, { ...inFlight, count: booting, after: serving, status: 'provisioning' });
  const begun = await placeNodes(db, { ...inFlight, count: starting, after: serving + booting, status: 'starting' });
  await beatAs(db, [...ready, ...begun], heartbeat, at);
  await db.query('analyze');
}

/** The next server knows only the store, so moving the rows into the past equals waiting. */
async function letTimePass(db: Database, seconds: number): Promise<void> {
  const columns = {
    replicas: ['started_at', 'lease_until', 'ended_at', 'flushed_through'],
    nodes: ['status_since', 'deadline_at', 'registered_at', 'created_at', 'clock_from'],
    heartbeats: ['last_seen_at'],
  };
  for (const [table, names] of Object.entries(columns))
    await db.query(
      `update ${table} set ${names.map((name) => `${name} = ${name} - make_interval(secs => $1)`).join(', ')}`,
      [seconds],
    );
}

const named = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => placedCredential(`fleet-${from + i + 1}`));

/** The machines that beat (serving and starting ones), sent by ten relays. */
const speakers = [...named(0, serving), ...named(serving + booting, starting)];
const relays = 10;
const perRequest = 100;

async function relay(server: TestServer, share: string[], isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const roundMs = systemClock.monotonicMs();
    for (let from = 0; from < share.length && !isOver(); from += perRequest)
      await sendBeats(server.url, share.slice(from, from + perRequest));
    const leftMs = heartbeat.interval_seconds * 1000 - (systemClock.monotonicMs() - roundMs);
    for (let waitedMs = 0; waitedMs < leftMs && !isOver(); waitedMs += 100) await pause(systemClock, 100);
  }
}

/** The machines beat again within their interval and keep beating. */
async function expectNoVerdict(server: TestServer, before: Record<string, number>): Promise<void> {
  let over = false;
  const size = Math.ceil(speakers.length / relays);
  const beats = Array.from({ length: relays }, (_, i) =>
    relay(server, speakers.slice(i * size, (i + 1) * size), () => over),
  );
  const endMs = systemClock.monotonicMs() + watchSeconds * 1000;
  try {
    while (systemClock.monotonicMs() < endMs) {
      const { nodes } = await server.client.call('overview-get', {});
      expect(nodes, 'false verdicts').toEqual(before);
      await pause(systemClock, 500);
    }
  } finally {
    over = true;
    await Promise.all(beats);
  }
}

async function expectMovedOnce(server: TestServer, db: Database, deadlines: Map<string, Date>): Promise<void> {
  const { gaps, holding } = await server.client.call('brake-get', {});
  const [away, ...more] = gaps.filter((gap) => gap.seconds >= awaySeconds);
  expect(more).toEqual([]);
  expect(away?.deadlines_moved).toBe(booting + starting);
  expect(holding).toBe(false);
  // A busy host may miss heartbeats once more; that is a gap of its own with its own extension.
  const since = gaps.filter((gap) => gap.started_at >= (away?.started_at ?? ''));
  const expected = since.reduce((sum, gap) => sum + gap.seconds, 0);
  const moved = (await placedRows(db)).flatMap(({ node_id, deadline_at }) => {
    const before = deadlines.get(node_id);
    return before && deadline_at ? [secondsBetween(before, deadline_at)] : [];
  });
  expect(moved).toHaveLength(booting + starting);
  for (const seconds of moved) expect(seconds, 'by each gap, once').toBeCloseTo(expected, 2);
}

async function story(composition: Composition): Promise<void> {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url });
  const start = () => inProcessServer({ database_url: database.url, composition });
  try {
    const first = await start();
    await first.client.call('pool-put', {
      params: { pool: 'fleet' },
      body: { driver: 'external', heartbeat, brake: noBrake },
    });
    await fill(db);
    const before = await first.client.call('overview-get', {});
    await first.stop();
    await letTimePass(db, awaySeconds);
    const waiting = (await placedRows(db)).filter((node) => node.deadline_at !== null);
    const deadlines = new Map(waiting.map(({ node_id, deadline_at }) => [node_id as string, deadline_at as Date]));

    const second = await start();
    try {
      await expectNoVerdict(second, before.nodes);
      await expectMovedOnce(second, db, deadlines);
    } finally {
      await second.stop();
    }
  } finally {
    await db.close();
    await database.drop();
  }
}

describeStory('restart of everything', story, [
  { broken: 'no record of when ingest was down', composition: claimsSteadyIngest, fails: /false verdicts/ },
]);
