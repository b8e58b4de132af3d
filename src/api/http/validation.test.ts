import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { Reason, strict } from '../../contract/primitives.ts';
import { compileCheck } from './validation.ts';

const check = compileCheck(
  Type.Object({ name: Type.String(), inner: Type.Optional(Type.Object({}, strict)) }, strict),
  'body',
);

test('reports each unknown key once', () => {
  const errors = [
    { path: '/body/colour', message: 'is an unknown field' },
    { path: '/body/inner/size', message: 'is an unknown field' },
  ];
  expect(() => check({ name: 'a', colour: 1 })).toThrow(
    expect.objectContaining({
      extras: { detail: `${errors[0]?.path} ${errors[0]?.message}.`, errors: errors.slice(0, 1) },
    }),
  );
  expect(() => check({ name: 'a', colour: 1, inner: { size: 1 } })).toThrow(
    expect.objectContaining({ extras: expect.objectContaining({ errors: expect.arrayContaining(errors) }) }),
  );
});

test('reports a blank text as blank, not as a violated pattern', () => {
  const checkReason = compileCheck(Type.Object({ reason: Reason }, strict), 'body');
  expect(() => checkReason({ reason: ' \t ' })).toThrow('/body/reason must not be blank');
});

const checkList = compileCheck(
  Type.Object({ items: Type.Array(Type.Object({ a: Type.Number() }, strict), { maxItems: 1_000 }) }),
  'body',
);
const itemsOf = (count: number, item: unknown) => ({ items: Array.from({ length: count }, () => item) });

test('refuses a long list by its first errors, its length or its number of values', () => {
  expect(() => checkList(itemsOf(900, { a: 'x' }))).toThrow('/body/items/0/a must be number');
  expect(() => checkList(itemsOf(1_001, { a: 1 }))).toThrow('/body/items must not have more than 1000 items');
  expect(() => checkList(itemsOf(60_000, {}))).toThrow('exceeds the limit of 50000 values');
});
