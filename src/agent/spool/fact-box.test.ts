import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { CallFailure } from '../connection/call-failure.ts';
import { openFactBox } from './fact-box.ts';

const dirs: string[] = [];
const directory = () => {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-facts-'));
  dirs.push(dir);
  return dir;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const refusedConnection: CallFailure = {
  call: 'agent-heartbeat',
  owner_layer: 'transport',
  layer: 'tcp',
  code: 'tcp_refused',
  status: null,
  detail: 'connect ECONNREFUSED',
  retry_after_seconds: null,
  deadline_at: null,
};

test('counts equal failures in one fact, keeps layers apart, and survives a restart', async () => {
  const clock = virtualClock();
  const dir = directory();
  const box = openFactBox(dir, clock);
  for (let i = 0; i < 3; i++) {
    box.callFailed(refusedConnection);
    await clock.advance(1000);
  }
  box.callFailed({ ...refusedConnection, layer: 'dns', code: 'ENOTFOUND' });
  const { facts } = openFactBox(dir, clock).take(10);
  expect(facts).toMatchObject([
    {
      layer: 'transport',
      kind: 'agent_call_failed',
      data: { owner_layer: 'transport', detail_layer: 'tcp', code: 'tcp_refused', count: 3 },
    },
    { layer: 'transport', data: { detail_layer: 'dns', count: 1 } },
  ]);
  expect(facts[0]?.data.first_at).not.toBe(facts[0]?.data.last_at);
});

test('keeps facts that were added while others were being sent', () => {
  const box = openFactBox(directory(), virtualClock());
  box.callFailed(refusedConnection);
  box.addFact('command_ended', 'the command exited', {});
  const { markSent } = box.take(10);
  box.callFailed(refusedConnection);
  markSent();
  expect(box.take(10).facts).toMatchObject([{ data: { count: 1 } }]);
  box.take(10).markSent();
  expect(box.isEmpty()).toBe(true);
});

test('keeps at most 200 facts and drops the oldest', () => {
  const box = openFactBox(directory(), virtualClock());
  for (let i = 0; i < 300; i++) {
    box.callFailed({ ...refusedConnection, code: `code_${i}` });
    box.addFact('command_ended', `${i}`, {});
  }
  const { facts } = box.take(1000);
  expect(facts).toHaveLength(200);
  expect(facts.at(-1)?.data.code).toBe('code_299');
});

test('keeps facts that the disk refuses, and stores them later', async () => {
  const clock = virtualClock();
  const dir = directory();
  const failures: unknown[] = [];
  const box = openFactBox(dir, clock, (error) => failures.push(error));
  const obstacle = join(dir, 'facts.json.new');
  mkdirSync(obstacle);
  box.addFact('command_ended', 'the command exited', {});
  box.callFailed(refusedConnection);
  expect(box.take(10).facts).toHaveLength(2);
  expect(failures).toHaveLength(1);
  rmSync(obstacle, { recursive: true });
  await clock.advance(10_000);
  expect(openFactBox(dir, clock).take(10).facts).toHaveLength(2);
});
