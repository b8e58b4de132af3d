import { Compile } from 'typebox/compile';
import { expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import { type DriverWorld, describeDriver } from '../conformance.ts';
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

async function externalWorld(): Promise<DriverWorld> {
  const revoked = new Set<string>();
  return {
    open: () => createExternalDriver({ revoked: async (id) => revoked.has(id) }),
    target,
    machines: async () => 0,
    killMachine: async () => {},
    halfDone: [],
    beforeProof: async ({ node_instance_id }) => void revoked.add(node_instance_id),
    close: async () => {},
  };
}

describeDriver('external', externalWorld, { may_hang: false });

it('proves only the revocation', async () => {
  const driver = createExternalDriver({ revoked: async () => true });
  for (const kind of ['absent', 'clean'] as const) {
    expect(await driver.prove(target('i'), { kind, nonce: 'n' })).toMatchObject({
      outcome: 'failed',
      retryable: false,
    });
  }
});

it('checks this very instance', async () => {
  const checked: string[] = [];
  const driver = createExternalDriver({ revoked: async (id) => checked.push(id) > 0 });
  const one = target('i');
  await driver.prove(one, { kind: 'revoked', nonce: 'n' });
  expect(checked).toEqual([one.node_instance_id]);
});

it('refuses any spec of its own', () => {
  const schema = Compile(createExternalDriver({ revoked: async () => true }).spec_schema);
  expect(schema.Check({})).toBe(true);
  expect(schema.Check({ command: ['x'] })).toBe(false);
});
