import { expect, it } from 'vitest';
import { titleAndDetail } from './finding-title.ts';

it('slower boots have a short title with a detail; other findings have only a title', () => {
  const says = 'boots take longer. Image-pull it is. None was given up';
  expect(titleAndDetail({ kind: 'boot-shift', what: 'boots_slower', says })).toEqual({
    title: 'its boots have become slower',
    detail: says,
  });
  expect(titleAndDetail({ kind: 'drift', what: 'row_differs', says: 'its row differs. Really' })).toEqual({
    title: 'its row differs. Really',
    detail: null,
  });
});
