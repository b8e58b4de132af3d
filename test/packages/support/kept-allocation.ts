/** An allocation that must stay active while its server is upgraded and rolled back. */
import { expect } from 'vitest';
import { type Client, RequestRefused } from '../../../src/contract/client.ts';
import { knownSchema } from '../../../src/store/upgrade/migration-steps.ts';
import { allocate, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { nextName, nextVersion as nextSchema } from '../../support/next-version.ts';
import { until } from '../../support/until.ts';

export interface KeptAllocation {
  /** Expects this version, the same machine, and a heartbeat from it after the call. */
  expectKept(client: Client, version: string): Promise<void>;
  /** Resolves to what the certificate says about the release. */
  release(client: Client): Promise<string>;
}

export async function keepAllocation(client: Client, pool: string): Promise<KeptAllocation> {
  const id = await allocate(client, pool);
  const { node_id } = await waitForStatus(client, id, 'active');
  const readNode = (from: Client) => from.call('node-get', { params: { id: node_id ?? '' } });
  const { node_instance_id } = await readNode(client);
  return {
    async expectKept(from, version) {
      expect((await from.call('health-get', {})).version).toBe(version);
      expect(await readAllocation(from, id)).toMatchObject({ status: 'active', node_id });
      const before = await readNode(from);
      const after = await until('a heartbeat of the kept machine', async () => {
        const node = await readNode(from);
        return node.last_seen_at !== before.last_seen_at && node;
      });
      expect(after).toMatchObject({ status: 'ready', occupancy: 'occupied', node_instance_id });
    },
    async release(from) {
      await release(from, id);
      await waitForStatus(from, id, 'released');
      const certificate = await until('the sealed certificate', () =>
        from.call('allocation-certificate', { params: { id } }).catch((error: unknown) => {
          if (error instanceof RequestRefused && error.problem.code === 'certificate_not_sealed') return undefined;
          throw error;
        }),
      );
      return certificate.release;
    },
  };
}

/** The output of `slipway upgrade --check --json` of the next version, before its first start. */
export const upgradeReport = {
  verdict: 'ready',
  schema: { database: knownSchema, program: nextSchema },
  migrations: [{ name: nextName, step: 'expand' }],
  rollback: { possible: true },
};

/** The output of this version's command, after the next version has migrated the database. */
export const rollbackReport = {
  verdict: 'ready',
  schema: { database: nextSchema, program: knownSchema },
  migrations: [],
};
