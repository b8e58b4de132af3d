import { expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { type DoctorTarget, fail } from './examination.ts';
import { examine } from './examine.ts';

async function remedyFor(code: string, caller: DoctorTarget['caller']): Promise<string | null | undefined> {
  const target: DoctorTarget = {
    url: new URL('http://127.0.0.1:1'),
    ca: null,
    known_keys: null,
    caller,
    correlation_id: 'c',
    clock: systemClock,
    signal: new AbortController().signal,
    timeout_seconds: 1,
  };
  for await (const { remedy } of examine(target, [{ layer: 'fence', check: async () => fail(code, 'no') }]))
    return remedy;
}

const person = { kind: 'person', token: null, node_id: 'node_1' } as const;
const agent = { kind: 'agent', credential: null } as const;

test('names the explain command with the id of a fenced node', async () => {
  expect(await remedyFor('node_fenced', person)).toContain('`slipway explain node_1`');
});

test('names the nodes command for an unknown id', async () => {
  expect(await remedyFor('node_not_found', person)).toContain('`slipway nodes --all`');
});

test('advises to restart a silent agent if the doctor already runs on its machine', async () => {
  expect(await remedyFor('heartbeat_stale', person)).toContain('slipway agent doctor');
  expect(await remedyFor('heartbeat_stale', agent)).toMatch(/the agent is not running or hangs/);
});
