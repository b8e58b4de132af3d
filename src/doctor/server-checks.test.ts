import { expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import { layerNames } from './examination.ts';
import { layers } from './examine.ts';
import { doctorCalls } from './server-checks.ts';

test('the calls of the doctor have the names and paths of the route table', () => {
  for (const [name, path] of Object.entries(doctorCalls)) expect(routes).toHaveProperty([name, 'path'], path);
});

test('the table examines every layer once, in the order of `layerNames`', () => {
  expect(layers.map(({ layer }) => layer)).toEqual(layerNames);
});
