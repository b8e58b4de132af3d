import { expect, it } from 'vitest';
import { isItsTurn, thoseInTurn } from './turn.ts';

const names = Array.from({ length: 300 }, (_, i) => `a story, told without rule ${i}`);

it('has a turn for everything, exactly one in five, and about as much in each', () => {
  const told = ['0', '1', '2', '3', '4'].map((turn) => names.filter((name) => isItsTurn(name, turn)));
  expect(told.flat().toSorted()).toEqual(names.toSorted());
  for (const fifth of told) expect(fifth.length).toBeGreaterThan(names.length / 8);
});

it('comes round with every fifth commit', () => {
  for (const name of names) expect(isItsTurn(name, '7')).toBe(isItsTurn(name, '2'));
});

it('is always the turn of what is run by itself', () => {
  expect(names.every((name) => isItsTurn(name, null))).toBe(true);
});

it('tells every one of a row within five turns, in their order, and none of them tells nothing', () => {
  const row = ['begin', 'middle', 'end', 'after that'];
  const told = ['0', '1', '2', '3', '4'].map((turn) => thoseInTurn(row, (name) => name, turn));
  for (const part of told) {
    expect(part.length).toBeGreaterThan(0);
    expect(part).toEqual(row.filter((name) => part.includes(name)));
  }
  expect(new Set(told.flat())).toEqual(new Set(row));
});
