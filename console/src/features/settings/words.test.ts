import { expect, it } from 'vitest';
import { settingRows, sourcedRows, whereFrom } from './words.ts';

it('lists settings by path and omits unset ones', () => {
  expect(
    settingRows({ port: 7070, tls: null, brake: { fraction: 0.2, deep: { on: true } }, hosts: ['a', 'b'] }),
  ).toEqual([
    ['port', '7070'],
    ['brake.fraction', '0.2'],
    ['brake.deep.on', 'true'],
    ['hosts', 'a, b'],
  ]);
});

it('names the source of each setting, and the settings file', () => {
  const sources = { port: '--port', allow_local_driver: 'it listens on this host alone' };
  expect(sourcedRows({ port: 7070, allow_local_driver: true, zone: 'eu' }, sources)).toEqual([
    ['port', '7070 (--port)'],
    ['allow_local_driver', 'true (it listens on this host alone)'],
    ['zone', 'eu'],
  ]);
  expect(whereFrom('/etc/slipway.yaml')).toContain('/etc/slipway.yaml');
  expect(whereFrom(null)).toBe('defaults; no settings file was given');
});
