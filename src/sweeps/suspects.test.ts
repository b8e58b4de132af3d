/** The beats are read seldom, and still nobody crosses the threshold unseen. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../test/support/database.ts';
import type { Database } from '../store/database.ts';
import { createSuspects } from './suspects.ts';
import { ruleStage, type Stage, staleSeconds } from './testing/stage.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('p');
});
afterEach(() => stage.close());

/** The database, with every statement counted and, if told, failing. */
function watched(): { db: Database; readings(): number; fail(): void } {
  let readings = 0;
  let failing = false;
  return {
    db: {
      ...stage.db,
      query: (text, values) => {
        readings++;
        if (!failing) return stage.db.query(text, values);
        failing = false;
        return Promise.reject(new Error('the store is away'));
      },
    },
    readings: () => readings,
    fail: () => {
      failing = true;
    },
  };
}

test('whoever crosses the threshold was found before, wherever between two readings it fell silent', async () => {
  const beats = Array.from({ length: 12 }, (_, i) => i * 0.5);
  const ids = [];
  for (const seconds of beats)
    ids.push(...(await stage.nodes({ pool: 'p', count: 1, last_seen_at: stage.at(seconds) })));
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  for (let seconds = 0; seconds < 2 * staleSeconds; seconds += 0.5) {
    const found = (await suspects.at(stage.at(seconds)))
      .filter(({ due_ms }) => due_ms <= stage.at(seconds).getTime())
      .map(({ node_id }) => node_id);
    const silent = ids.filter((_, i) => (beats[i] ?? 0) + staleSeconds <= seconds);
    expect(
      silent.filter((id) => !found.includes(id)),
      `at ${seconds} s`,
    ).toEqual([]);
  }
  expect(readings()).toBe((2 * staleSeconds) / suspects.everySeconds());
});

test('those that ask at once share one reading', async () => {
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  await Promise.all([suspects.at(stage.at(0)), suspects.at(stage.at(0)), suspects.at(stage.at(0.1))]);
  expect(readings()).toBe(1);
});

test('a reading that failed is told, and the next asker reads again', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 1 });
  const { db, fail } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  fail();
  await expect(suspects.at(stage.at(staleSeconds))).rejects.toThrow('the store is away');
  expect((await suspects.at(stage.at(staleSeconds))).map(({ node_id }) => node_id)).toEqual(ids);
});

test('a clock that was set back reads anew', async () => {
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  await suspects.at(stage.at(3600));
  await suspects.at(stage.at(0));
  expect(readings()).toBe(2);
});
