import { expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import { layerNames } from './examination.ts';
import { layers } from './examine.ts';
import { doctorCalls } from './server-checks.ts';

test('names and paths of the calls match the route table', () => {
  for (const [name, path] of Object.entries(doctorCalls)) expect(routes).toHaveProperty([name, 'path'], path);
});

test('examines every layer once, in the order of their dependencies', () => {
  expect(layers.map(({ layer }) => layer)).toEqual(layerNames);
});
