import { afterAll, beforeAll, expect, it } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { askAll } from './ask-all.ts';
import type { Queryable } from './database.ts';
import { withinTransaction } from './one-transaction.ts';

let store: TestStore;

beforeAll(async () => {
  store = await testStore();
});

afterAll(() => store.close());

/** How many were under way at the same time, and what they answered. */
async function askedOf(db: Queryable) {
  let underWay = 0;
  let most = 0;
  const question = (answer: number) => async () => {
    most = Math.max(most, ++underWay);
    const [row] = await db.query<{ answer: number }>('select $1::int as answer', [answer]);
    underWay--;
    return row?.answer;
  };
  return { answers: await askAll(db, [question(1), question(2), question(3)]), most };
}

it('asks at once where each has a connection of its own, and answers in the order of the questions', async () => {
  expect(await askedOf(store.db)).toEqual({ answers: [1, 2, 3], most: 3 });
});

it('asks one after another in a transaction', async () => {
  const oneByOne = { answers: [1, 2, 3], most: 1 };
  expect(await store.db.transaction(askedOf)).toEqual(oneByOne);
  const within = store.db.transaction((tx) => askedOf(withinTransaction(store.db, tx)));
  expect(await within, 'also where it stands for the whole database').toEqual(oneByOne);
});

it('fails as a question fails, also one that throws before it asks', async () => {
  const throws = () => {
    throw new Error('no such question');
  };
  await expect(askAll(store.db, [async () => 1, throws])).rejects.toThrow('no such question');
});
