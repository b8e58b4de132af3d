import { expect, it } from 'vitest';
import { settingRows } from './settings.ts';

it('settings are rows by their path, without what is not set', () => {
  expect(
    settingRows({ port: 7070, tls: null, brake: { fraction: 0.2, deep: { on: true } }, hosts: ['a', 'b'] }),
  ).toEqual([
    ['port', '7070'],
    ['brake.fraction', '0.2'],
    ['brake.deep.on', 'true'],
    ['hosts', 'a, b'],
  ]);
});
