/**
 * What is told in turn. Counter-tests (the story without its rule) and killed steps test the tests and the engine rather than the
 * last change, and together they take as long as everything else. So `npm test` tells a fifth of them, with every commit the next
 * one; `npm run test:all`, and whoever runs a single file, tells all.
 */
const turns = 5;

/** Of the whole run (scripts/test.ts); nobody else sets it. */
const turn = process.env.SLIPWAY_TEST_TURN ?? null;

/** Spread by name and not by place: a test that is added moves no other one to another turn. */
const placeOf = (name: string): number => {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 1_000_003;
  return sum % turns;
};

export const isItsTurn = (name: string, now: string | null = turn): boolean =>
  now === null || placeOf(name) === Number(now) % turns;

/** Of things that come one after another, those whose turn it is, in their order; always one of them. */
export const thoseInTurn = <Thing>(
  things: readonly Thing[],
  nameOf: (thing: Thing) => string,
  now: string | null = turn,
): Thing[] => {
  const told = things.filter((thing) => isItsTurn(nameOf(thing), now));
  return told.length > 0 ? told : things.slice(0, 1);
};
