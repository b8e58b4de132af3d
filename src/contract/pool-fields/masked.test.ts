/**
 * Tests that masks hide literal values, and that sending a masked document back changes nothing.
 */
import { expect, test } from 'vitest';
import type { PoolDocument } from '../pool.ts';
import { maskedValue, maskPool, unmaskPool } from './masked.ts';

const stored: PoolDocument = {
  driver: 'ec2',
  max_nodes: 3,
  requires: [
    { name: 'cuda', check: 'nvidia-smi --token hunter2' },
    { name: 'disk', check: 'df /data' },
  ],
  spec: {
    region: 'eu-central-1',
    env: { PASSWORD: 'hunter2', MODE: 'fast', KEY: { secret: 'api-key' } },
    setup: 'echo hunter2',
    prepare: 'echo hunter2',
    clean: 'echo hunter2',
    command: ['run', '--key', 'hunter2'],
  },
};

test('hides literal values and keeps names, references and everything else', () => {
  const masked = maskPool(stored);
  expect(JSON.stringify(masked)).not.toContain('hunter2');
  expect(masked).toMatchObject({
    max_nodes: 3,
    requires: [{ name: 'cuda', check: maskedValue }, { name: 'disk' }],
    spec: {
      region: 'eu-central-1',
      env: { PASSWORD: maskedValue, MODE: maskedValue, KEY: { secret: 'api-key' } },
      command: [maskedValue],
    },
  });
});

test('restores the stored document from a masked one', () => {
  expect(unmaskPool(maskPool(stored), stored)).toEqual({ document: stored, unknown: [] });
});

test('keeps changes outside the masks, in any order', () => {
  const { requires = [], ...masked } = maskPool(stored);
  const sent = { ...masked, max_nodes: 5, requires: requires.toReversed() };
  expect(unmaskPool(sent, stored)).toEqual({
    document: { ...stored, max_nodes: 5, requires: stored.requires?.toReversed() },
    unknown: [],
  });
});

test('reports a mask without a stored value', () => {
  const spec = { setup: maskedValue, env: { FRESH: maskedValue, constructor: maskedValue }, command: [maskedValue] };
  const sent = { driver: 'ec2', spec, requires: [{ name: 'other', check: maskedValue }] };
  expect(unmaskPool(sent, { spec: { env: {} } }).unknown).toEqual([
    '/body/spec/setup',
    '/body/spec/env/FRESH',
    '/body/spec/env/constructor',
    '/body/spec/command',
    '/body/requires/0/check',
  ]);
});
