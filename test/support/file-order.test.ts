import { expect, test } from 'vitest';
import { dealt } from './file-order.ts';

test.for([
  { some: ['a', 'b'], others: ['1', '2', '3', '4'], together: ['a', '1', '2', 'b', '3', '4'] },
  { some: ['a', 'b', 'c'], others: ['1'], together: ['a', '1', 'b', 'c'] },
  { some: [], others: ['1', '2'], together: ['1', '2'] },
])('$some and $others are dealt out evenly, each in its own order', ({ some, others, together }) => {
  expect(dealt(some, others)).toEqual(together);
});
