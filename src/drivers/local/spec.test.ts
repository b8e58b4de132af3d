import { Compile } from 'typebox/compile';
import { expect, it } from 'vitest';
import { LocalSpec } from './spec.ts';

const schema = Compile(LocalSpec);

it.each([
  {},
  { command: ['sleep', '1'] },
  { env: { PATH: '/bin', A_1: '' }, setup: 'a\nb', clean: 'true' },
  { boot_stages: [{ name: 'pull image', seconds: 0.5 }] },
])('accepts %j', (spec) => {
  expect(schema.Check(spec)).toBe(true);
});

it.each([
  [],
  null,
  { commands: ['typo'] },
  { command: [] },
  { command: 'sleep 1' },
  { command: ['a\u0000b'] },
  { setup: 'a\u0000b' },
  { clean: 5 },
  { env: { SLIPWAY_NODE_INSTANCE_ID: 'somebody else' } },
  { env: { SLIPWAY_: '' } },
  { env: { 'A=B': '' } },
  { env: { A: 1 } },
  { env: { A: 'a\u0000b' } },
  { boot_stages: [{ name: '', seconds: 1 }] },
  { boot_stages: [{ name: 'x', seconds: -1 }] },
  { boot_stages: [{ name: 'x', seconds: 1, more: 1 }] },
  { command: Array(257).fill('x') },
  { setup: 'x'.repeat(65_537) },
])('refuses %j', (spec) => {
  expect(schema.Check(spec)).toBe(false);
});
