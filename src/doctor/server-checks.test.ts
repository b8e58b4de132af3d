import { expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import { layerNames } from './examination.ts';
import { layers } from './examine.ts';
import { doctorCalls } from './server-checks.ts';

test('the names and paths of the calls are those of the route table', () => {
  for (const [name, path] of Object.entries(doctorCalls)) expect(routes).toHaveProperty([name, 'path'], path);
});

test('every layer is asked once, in the order in which they rest on each other', () => {
  expect(layers.map(({ layer }) => layer)).toEqual(layerNames);
});
