import { expect, it } from 'vitest';
import { pullProgress } from './pull.ts';

const event = (layer: string | null, status: string, current: number | null = null, total: number | null = null) => ({
  layer,
  status,
  current,
  total,
});

it('counts finished layers and bytes, and never decreases when a layer is unpacked', () => {
  const progress = pullProgress('worker:1');
  expect(progress.message()).toBe('pulling image worker:1');
  progress.onEvent(event('1', 'Pulling from library/worker'));
  progress.onEvent(event('aaa', 'Already exists'));
  progress.onEvent(event('bbb', 'Downloading', 30, 100));
  progress.onEvent(event('ccc', 'Downloading', 150, 300));
  expect(progress.message()).toBe('pulling image worker:1: 1 of 3 layers, 45 %');
  progress.onEvent(event('ccc', 'Extracting', 10, 300));
  expect(progress.message(), 'unpacking counts from zero again').toBe('pulling image worker:1: 1 of 3 layers, 45 %');
  progress.onEvent(event('bbb', 'Pull complete'));
  expect(progress.message()).toBe('pulling image worker:1: 2 of 3 layers, 62 %');
  expect(progress.parts()).toEqual([
    { name: 'aaa', kind: 'layer', state: 'Already exists', tone: 'ok' },
    { name: 'bbb', kind: 'layer', state: 'Pull complete', tone: 'ok', detail: '100 %' },
    { name: 'ccc', kind: 'layer', state: 'Extracting', tone: 'busy', detail: '50 %' },
  ]);
});
