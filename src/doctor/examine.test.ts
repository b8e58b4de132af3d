import { expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { type DoctorTarget, failed } from './examination.ts';
import { examine } from './examine.ts';

async function adviceOn(code: string, caller: DoctorTarget['caller']): Promise<string | null | undefined> {
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
  for await (const { remedy } of examine(target, [{ layer: 'fence', check: async () => failed(code, 'no') }]))
    return remedy;
}

const person = { kind: 'person', token: null, node_id: 'node_1' } as const;
const agent = { kind: 'agent', credential: null } as const;

test('explains a fenced node, by its id', async () => {
  expect(await adviceOn('node_fenced', person)).toContain('`slipway explain node_1`');
});

test('an unknown id leads to the list of nodes', async () => {
  expect(await adviceOn('node_not_found', person)).toContain('`slipway nodes --all`');
});

test('the doctor of a silent agent does not advise to run the doctor', async () => {
  expect(await adviceOn('heartbeat_stale', person)).toContain('slipway agent doctor');
  expect(await adviceOn('heartbeat_stale', agent)).toMatch(/the agent does not run, or hangs/);
});
