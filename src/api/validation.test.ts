import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { strict } from '../contract/primitives.ts';
import { compileCheck } from './validation.ts';

const check = compileCheck(
  Type.Object({ name: Type.String(), inner: Type.Optional(Type.Object({}, strict)) }, strict),
  'body',
);

test('each unknown key is told of once', () => {
  const errors = [
    { path: '/body/colour', message: 'is not a key that is known here' },
    { path: '/body/inner/size', message: 'is not a key that is known here' },
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
