import { Compile } from 'typebox/compile';
import { expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import { type DriverFixture, describeDriver } from '../conformance.ts';
import type { EnsureTarget } from '../driver.ts';
import { createExternalDriver } from './external-driver.ts';

const target = (installation_id: string): EnsureTarget => ({
  installation_id,
  pool: 'hosts',
  node_id: newNodeId(systemClock),
  node_instance_id: newNodeInstanceId(systemClock),
  name: 'host-1',
  zone: null,
  spec: {},
  workflow_id: null,
  correlation_id: null,
  state: {},
  bootstrap: {
    server_url: 'http://127.0.0.1:1',
    enrollment_token: 't',
    deadline_at: '2100-01-01T00:00:00Z',
    requires: [],
  },
});

async function externalFixture(): Promise<DriverFixture> {
  const revoked = new Set<string>();
  return {
    open: () => createExternalDriver({ isRevoked: async (id) => revoked.has(id) }),
    target,
    machines: async () => 0,
    killMachine: async () => {},
    partialLaunches: [],
    beforeProof: async ({ node_instance_id }) => void revoked.add(node_instance_id),
    close: async () => {},
  };
}

describeDriver('external', externalFixture, { may_hang: false });

it('refuses to prove absence or cleanliness', async () => {
  const driver = createExternalDriver({ isRevoked: async () => true });
  for (const kind of ['absent', 'clean'] as const) {
    expect(await driver.prove(target('i'), { kind, nonce: 'n' })).toMatchObject({
      outcome: 'failed',
      retryable: false,
    });
  }
});

it('checks the credentials of the given instance', async () => {
  const checked: string[] = [];
  const driver = createExternalDriver({ isRevoked: async (id) => checked.push(id) > 0 });
  const machine = target('i');
  await driver.prove(machine, { kind: 'revoked', nonce: 'n' });
  expect(checked).toEqual([machine.node_instance_id]);
});

it('refuses a spec with any field', () => {
  const schema = Compile(createExternalDriver({ isRevoked: async () => true }).spec_schema);
  expect(schema.Check({})).toBe(true);
  expect(schema.Check({ command: ['x'] })).toBe(false);
});
