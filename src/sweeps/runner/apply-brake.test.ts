/** The brake on a real store: which nodes it holds, until when, and how fast it releases them. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsBetween } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { defaultBrakePolicy, defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import { type HoldRow, readNewestHolds, readOpenHolds, resumeHolds } from '../../store/supervision/brake.ts';
import { lockSilentNodes } from '../../store/supervision/silent-nodes.ts';
import { liveness } from '../rules/liveness.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';
import { brakeWatch } from '../watchers/brake-watch.ts';
import type { Sweep } from './sweep.ts';

let fixture: RuleFixture;
let rule: Sweep;
let watch: Sweep;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  rule = liveness(fixture.services);
  watch = brakeWatch(fixture.services);
});
afterEach(() => fixture.close());

const { min_nodes } = defaultBrakePolicy;
const { mass_failure_seconds, window_seconds } = defaultBrakeSettings;
const silentAt = staleSeconds + 1;
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;

const readHolds = () => readOpenHolds(fixture.db);
const readHeld = async (ids: readonly NodeId[]) => (await fixture.readNodes(ids)).flatMap((node) => node.held ?? []);
const resume = (hold: HoldRow | undefined, seconds: number) =>
  fixture.db.transaction((tx) =>
    resumeHolds(
      tx,
      { ...(hold && { hold_id: hold.hold_id }), reason: 'the outage is real', actor },
      fixture.at(seconds),
    ),
  );

/** Runs the brake watch and then the rule, and returns how many nodes the rule decided on. */
async function runPass(seconds: number): Promise<number> {
  await fixture.markStored(fixture.at(seconds));
  await watch.run(fixture.at(seconds));
  const { decided } = await rule.run(fixture.at(seconds));
  return decided;
}

test('decides at once on fewer nodes than the minimum, even if they are the whole pool', async () => {
  await fixture.declarePool('small');
  const ids = await fixture.addNodes({ pool: 'small', count: min_nodes - 1 });
  expect(await runPass(silentAt)).toBe(ids.length);
  expect(await readHolds()).toEqual([]);
});

test('decides on nodes that fail one by one until the threshold, then holds', async () => {
  await fixture.declarePool('p');
  const ids = await fixture.addNodes({ pool: 'p', count: 20 });
  await fixture.beat(ids, fixture.at(300));
  for (let i = 0; i < min_nodes; i++) await fixture.beat(ids.slice(i, i + 1), fixture.at(i));
  for (let i = 0; i < min_nodes; i++)
    expect(await runPass(silentAt + i), `node ${i + 1}`).toBe(i < min_nodes - 1 ? 1 : 0);
  const [held] = await readHeld(ids);
  expect(held).toMatchObject({ rule: 'liveness', to: 'offline', kind: 'mass-failure' });
});

test('a pool without a brake of its own has the one of the server', async () => {
  fixture.environment.brake_policy = { fraction: 0.6, min_nodes: 2 };
  await fixture.declarePool('default');
  await fixture.declarePool('own', { brake: { fraction: 0.9 } });
  for (const pool of ['default', 'own']) {
    await fixture.addNodes({ pool, count: 3 });
    const beating = await fixture.addNodes({ pool, count: 1 });
    await fixture.beat(beating, fixture.at(silentAt));
  }
  expect(await runPass(silentAt)).toBe(3);
  expect(await readHolds()).toMatchObject([{ scope: 'pool', name: 'default' }]);
});

test('a hold lasts its full time, then releases two nodes a minute, each when announced', async () => {
  await fixture.declarePool('p');
  const ids = await fixture.addNodes({ pool: 'p', count: 40 });
  expect(await runPass(silentAt)).toBe(0);
  const [hold] = await readHolds();
  expect(hold).toMatchObject({ scope: 'pool', name: 'p', negative: 40, population: 40 });
  expect(secondsBetween(fixture.at(silentAt), hold?.held_until as Date)).toBe(mass_failure_seconds);
  const holdEnd = silentAt + mass_failure_seconds;
  expect(await runPass(holdEnd - 1)).toBe(0);
  // The pace is 5 % of forty nodes per minute. The first two go at once.
  for (let minute = 0; minute < 20; minute++) {
    const at = holdEnd + minute * 60;
    expect(await runPass(at), `minute ${minute}`).toBe(2);
    for (const later of [1, 30, 59]) expect(await runPass(at + later)).toBe(0);
    const secondsToRelease = (await readHeld(ids)).map(({ held_until }) =>
      secondsBetween(fixture.at(at), new Date(held_until)),
    );
    expect(secondsToRelease.sort((a, b) => a - b)).toEqual(
      Array.from({ length: 38 - minute * 2 }, (_, index) => 60 * Math.ceil((index + 1) / 2)),
    );
  }
  expect(await fixture.countStatuses(ids)).toEqual({ offline: 40 });
  await runPass(holdEnd + 20 * 60);
  expect(await readHolds()).toEqual([]);
});

test('decides on nodes that a person released, and does not hold them again', async () => {
  await fixture.declarePool('p');
  const ids = await fixture.addNodes({ pool: 'p', count: 20 });
  await runPass(silentAt);
  for (let seconds = 0; seconds < 120; seconds += 10) expect(await runPass(silentAt + seconds)).toBe(0);
  const [hold] = await readHolds();
  await resume(hold, silentAt + 120);
  expect(await runPass(silentAt + 120)).toBe(20);
  expect(await fixture.countStatuses(ids)).toEqual({ offline: 20 });
  expect(await readNewestHolds(fixture.db, 10)).toHaveLength(1);
  await runPass(silentAt + 120 + 2 * window_seconds);
  expect(await readHolds()).toEqual([]);
});

test('releases nodes that send heartbeats again', async () => {
  await fixture.declarePool('p');
  const ids = await fixture.addNodes({ pool: 'p', count: 20 });
  await runPass(silentAt);
  await fixture.beat(ids.slice(0, 5), fixture.at(silentAt + 10));
  await runPass(silentAt + 11);
  expect(await readHeld(ids)).toHaveLength(15);
  await fixture.beat(ids, fixture.at(silentAt + 20));
  await runPass(silentAt + 21);
  expect(await readHeld(ids)).toEqual([]);
  await runPass(silentAt + 22);
  expect(await readHolds()).toEqual([]);
  expect(await fixture.countStatuses(ids)).toEqual({ ready: 20 });
});

test('adds up the failures of the pools of a zone and opens one hold for the zone', async () => {
  for (const pool of ['a', 'b']) await fixture.declarePool(pool, { zone: 'eu-1' });
  const silentIds: NodeId[] = [];
  for (const pool of ['a', 'b']) {
    silentIds.push(...(await fixture.addNodes({ pool, count: min_nodes - 2 })));
    await fixture.addNodes({ pool, count: 7, last_seen_at: fixture.at(300) });
  }
  expect(await runPass(silentAt)).toBe(0);
  const [hold, ...more] = await readHolds();
  expect(more).toEqual([]);
  expect(hold).toMatchObject({ scope: 'zone', name: 'eu-1', negative: silentIds.length, population: 20 });
  expect(new Set((await readHeld(silentIds)).map((held) => held.hold))).toEqual(new Set([hold?.hold_id]));
  await resume(hold, silentAt + 30);
  expect(await runPass(silentAt + 30)).toBe(silentIds.length);
});

test('a failing pool that is its whole zone opens one hold, and one resume releases it', async () => {
  await fixture.declarePool('a', { zone: 'eu-1' });
  const ids = await fixture.addNodes({ pool: 'a', count: 20 });
  expect(await runPass(silentAt)).toBe(0);
  const [hold, ...more] = await readHolds();
  expect(more).toEqual([]);
  expect(hold).toMatchObject({ scope: 'pool', name: 'a' });
  await resume(hold, silentAt + 30);
  expect(await runPass(silentAt + 30)).toBe(20);
  expect(await fixture.countStatuses(ids)).toEqual({ offline: 20 });
});

test('holds few failing nodes of a second pool if the zone as a whole fails', async () => {
  for (const pool of ['a', 'b']) await fixture.declarePool(pool, { zone: 'eu-1' });
  await fixture.addNodes({ pool: 'a', count: 20 });
  const secondPoolIds = await fixture.addNodes({ pool: 'b', count: min_nodes - 2 });
  await fixture.addNodes({ pool: 'b', count: 17, last_seen_at: fixture.at(300) });
  expect(await runPass(silentAt)).toBe(0);
  expect(await readHeld(secondPoolIds)).toHaveLength(secondPoolIds.length);
});

test('opens a hold even if another replica has locked half of the failing nodes', async () => {
  await fixture.declarePool('p');
  const ids = await fixture.addNodes({ pool: 'p', count: 2 * (min_nodes - 1) });
  const now = fixture.at(silentAt);
  await fixture.db.transaction(async (other) => {
    const lockedByOther = await lockSilentNodes(other, ids, now, min_nodes - 1, []);
    expect(lockedByOther).toHaveLength(min_nodes - 1);
    expect(await runPass(silentAt)).toBe(0);
  });
  expect(await readHolds()).toHaveLength(1);
});
