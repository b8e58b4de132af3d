/**
 * The brake on a real store at chosen times: which nodes are held, by which hold, until when, and
 * at which pace.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsBetween } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { defaultBrakePolicy, defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import { type HoldRow, newestHolds, openHolds, resumeHolds } from '../../store/supervision/brake.ts';
import { lockSilentNodes } from '../../store/supervision/silent-nodes.ts';
import { liveness } from '../rules/liveness.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';
import { brakeWatch } from '../watchers/brake-watch.ts';
import type { Sweep } from './sweep.ts';

let stage: Stage;
let rule: Sweep;
let watch: Sweep;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  rule = liveness(stage.services);
  watch = brakeWatch(stage.services);
});
afterEach(() => stage.close());

const { min_nodes } = defaultBrakePolicy;
const { mass_failure_seconds, window_seconds } = defaultBrakeSettings;
const silentAt = staleSeconds + 1;
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;

const holdsNow = () => openHolds(stage.db);
const heldBy = async (ids: readonly NodeId[]) => (await stage.rows(ids)).flatMap((node) => node.held ?? []);
const resume = (hold: HoldRow | undefined, seconds: number) =>
  stage.db.transaction((tx) =>
    resumeHolds(tx, { ...(hold && { hold_id: hold.hold_id }), reason: 'it is real', actor }, stage.at(seconds)),
  );

/** One pass of the rule and of the brake watch, which alternate every second. */
async function pass(seconds: number): Promise<number> {
  await stage.hear(stage.at(seconds));
  await watch.run(stage.at(seconds));
  const { decided } = await rule.run(stage.at(seconds));
  return decided;
}

test('decides at once on fewer nodes than the minimum, even if they are the whole pool', async () => {
  await stage.pool('small');
  const ids = await stage.nodes({ pool: 'small', count: min_nodes - 1 });
  expect(await pass(silentAt)).toBe(ids.length);
  expect(await holdsNow()).toEqual([]);
});

test('holds a slow failure once it exceeds the threshold', async () => {
  await stage.pool('p');
  const ids = await stage.nodes({ pool: 'p', count: 20 });
  await stage.beat(ids, stage.at(300));
  for (let i = 0; i < min_nodes; i++) await stage.beat(ids.slice(i, i + 1), stage.at(i));
  for (let i = 0; i < min_nodes; i++) expect(await pass(silentAt + i), `the ${i + 1}.`).toBe(i < min_nodes - 1 ? 1 : 0);
  const [held] = await heldBy(ids);
  expect(held).toMatchObject({ rule: 'liveness', to: 'offline', kind: 'mass-failure' });
});

test('a hold lasts its full time and then releases nodes at the pace, each at its announced turn', async () => {
  await stage.pool('p');
  const ids = await stage.nodes({ pool: 'p', count: 40 });
  expect(await pass(silentAt)).toBe(0);
  const [hold] = await holdsNow();
  expect(hold).toMatchObject({ scope: 'pool', name: 'p', negative: 40, population: 40 });
  expect(secondsBetween(stage.at(silentAt), hold?.held_until as Date)).toBe(mass_failure_seconds);
  const over = silentAt + mass_failure_seconds;
  expect(await pass(over - 1)).toBe(0);
  // Two per minute: 5 % of forty. The first at once.
  for (let minute = 0; minute < 20; minute++) {
    const at = over + minute * 60;
    expect(await pass(at), `minute ${minute}`).toBe(2);
    for (const later of [1, 30, 59]) expect(await pass(at + later)).toBe(0);
    const turns = (await heldBy(ids)).map(({ held_until }) => secondsBetween(stage.at(at), new Date(held_until)));
    expect(turns.sort((a, b) => a - b)).toEqual(
      Array.from({ length: 38 - minute * 2 }, (_, place) => 60 * Math.ceil((place + 1) / 2)),
    );
  }
  expect(await stage.statuses(ids)).toEqual({ offline: 40 });
  await pass(over + 20 * 60);
  expect(await holdsNow()).toEqual([]);
});

test('decides on nodes that a person released, and does not hold them again', async () => {
  await stage.pool('p');
  const ids = await stage.nodes({ pool: 'p', count: 20 });
  await pass(silentAt);
  for (let seconds = 0; seconds < 120; seconds += 10) expect(await pass(silentAt + seconds)).toBe(0);
  const [hold] = await holdsNow();
  await resume(hold, silentAt + 120);
  expect(await pass(silentAt + 120)).toBe(20);
  expect(await stage.statuses(ids)).toEqual({ offline: 20 });
  expect(await newestHolds(stage.db, 10)).toHaveLength(1);
  await pass(silentAt + 120 + 2 * window_seconds);
  expect(await holdsNow()).toEqual([]);
});

test('releases nodes that send heartbeats again', async () => {
  await stage.pool('p');
  const ids = await stage.nodes({ pool: 'p', count: 20 });
  await pass(silentAt);
  await stage.beat(ids.slice(0, 5), stage.at(silentAt + 10));
  await pass(silentAt + 11);
  expect(await heldBy(ids)).toHaveLength(15);
  await stage.beat(ids, stage.at(silentAt + 20));
  await pass(silentAt + 21);
  expect(await heldBy(ids)).toEqual([]);
  await pass(silentAt + 22);
  expect(await holdsNow()).toEqual([]);
  expect(await stage.statuses(ids)).toEqual({ ready: 20 });
});

test('treats a zone as one failure across its pools', async () => {
  for (const pool of ['a', 'b']) await stage.pool(pool, { zone: 'eu-1' });
  const lost: NodeId[] = [];
  for (const pool of ['a', 'b']) {
    lost.push(...(await stage.nodes({ pool, count: min_nodes - 2 })));
    await stage.nodes({ pool, count: 7, last_seen_at: stage.at(300) });
  }
  expect(await pass(silentAt)).toBe(0);
  const [hold, ...more] = await holdsNow();
  expect(more).toEqual([]);
  expect(hold).toMatchObject({ scope: 'zone', name: 'eu-1', negative: lost.length, population: 20 });
  expect(new Set((await heldBy(lost)).map((held) => held.hold))).toEqual(new Set([hold?.hold_id]));
  await resume(hold, silentAt + 30);
  expect(await pass(silentAt + 30)).toBe(lost.length);
});

test('a pool that fails in its zone is one incident, and one resume is enough', async () => {
  await stage.pool('a', { zone: 'eu-1' });
  const ids = await stage.nodes({ pool: 'a', count: 20 });
  expect(await pass(silentAt)).toBe(0);
  const [hold, ...more] = await holdsNow();
  expect(more).toEqual([]);
  expect(hold).toMatchObject({ scope: 'pool', name: 'a' });
  await resume(hold, silentAt + 30);
  expect(await pass(silentAt + 30)).toBe(20);
  expect(await stage.statuses(ids)).toEqual({ offline: 20 });
});

test('a held pool does not hide the failure of its whole zone', async () => {
  for (const pool of ['a', 'b']) await stage.pool(pool, { zone: 'eu-1' });
  await stage.nodes({ pool: 'a', count: 20 });
  const few = await stage.nodes({ pool: 'b', count: min_nodes - 2 });
  await stage.nodes({ pool: 'b', count: 17, last_seen_at: stage.at(300) });
  expect(await pass(silentAt)).toBe(0);
  expect(await heldBy(few)).toHaveLength(few.length);
});

test('replicas that each find a part see the whole failure', async () => {
  await stage.pool('p');
  const ids = await stage.nodes({ pool: 'p', count: 2 * (min_nodes - 1) });
  const now = stage.at(silentAt);
  await stage.db.transaction(async (other) => {
    const taken = await lockSilentNodes(other, ids, now, min_nodes - 1, []);
    expect(taken).toHaveLength(min_nodes - 1);
    expect(await pass(silentAt)).toBe(0);
  });
  expect(await holdsNow()).toHaveLength(1);
});
