/**
 * An operator who also administers the database changes it and asks the server to sign the result.
 */
import { RequestRefused } from '../../../src/contract/client.ts';
import { type Database, openDatabase } from '../../../src/store/pg/database.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

/** Releases an allocation that has no machine, and waits until its certificate is issued. */
async function createCertifiedRelease({ client }: SpawnedServer, pool: string): Promise<{ id: string }> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external' } });
  const { allocation } = await client.call('allocation-create', { body: { pool } });
  const params = { id: allocation.allocation_id };
  await client.call('allocation-release', { params, body: { reason: 'for a test' } });
  await until('the certificate to be issued', () =>
    client.call('allocation-certificate', { params }).catch(() => undefined),
  );
  return params;
}

async function requestCertificateAfter(
  server: SpawnedServer,
  params: { id: string },
  change: (dba: Database) => Promise<unknown>,
) {
  const dba = openDatabase({ url: server.database_url });
  try {
    await change(dba);
    // A row that the attack added is sealed within about a second.
    return await until('the certificate to be issued or refused', () =>
      server.client.call('allocation-certificate', { params }).catch((error: unknown) => {
        if (error instanceof RequestRefused && error.problem.code === 'certificate_not_sealed') return undefined;
        throw error;
      }),
    );
  } catch (error) {
    if (error instanceof RequestRefused && error.problem.code === 'certificate_evidence_changed') return undefined;
    throw error;
  } finally {
    await dba.close();
  }
}

export const changedEvidenceAttacks: Attack[] = [
  {
    name: 'chain: gets a certificate for a release that was changed in the database after sealing',
    without: [
      { file: 'src/api/routes/certificates.ts', find: "if (check.state === 'changed')", replace: 'if (false)' },
      {
        file: 'src/store/integrity/sealed-rows.ts',
        find: '&& each.hash.equals(wanted.hash)',
        replace: '',
      },
    ],
    async succeeds(server) {
      const params = await createCertifiedRelease(server, 'backdated');
      const certificate = await requestCertificateAfter(server, params, async (dba) => {
        const earlierTime = '2020-01-01T00:00:00.000Z';
        await dba.query(
          `update evidence set data = jsonb_set(data, '{set,released_at}', to_jsonb($2::text))
           where allocation_id = $1 and kind = 'allocation.released'`,
          [params.id, earlierTime],
        );
        await dba.query('update allocations set released_at = $2 where allocation_id = $1', [params.id, earlierTime]);
      });
      return certificate?.released_at === '2020-01-01T00:00:00.000Z';
    },
  },
  {
    name: "chain: makes a certificate name another tenant by changing the allocation's row",
    without: [{ file: 'src/api/routes/certificates.ts', find: 'if (changed)', replace: 'if (false)' }],
    async succeeds(server) {
      const params = await createCertifiedRelease(server, 'renamed');
      const certificate = await requestCertificateAfter(server, params, (dba) =>
        dba.query(`update allocations set tenant = 'scapegoat' where allocation_id = $1`, [params.id]),
      );
      return certificate?.tenant === 'scapegoat';
    },
  },
  {
    name: 'chain: gets a release certified as proven by adding a proof to the database after the release',
    without: [
      {
        file: 'src/store/history/release-record.ts',
        find: 'and (xid, seq) < ($2::xid8, $3::bigint)',
        replace: 'and ($2::xid8, $3::bigint) is not null',
      },
    ],
    async succeeds(server) {
      const params = await createCertifiedRelease(server, 'proven-later');
      const addProof = (dba: Database) =>
        dba.query(
          `insert into evidence (at, layer, kind, summary, data, allocation_id, workflow_id, origin)
           select now(), 'provider', 'proof.absent', 'gone', '{"by": "driver"}', allocation_id, workflow_id, 'internal'
           from evidence
           where allocation_id = $1 and kind = 'allocation.released'`,
          [params.id],
        );
      const certificate = await requestCertificateAfter(server, params, addProof);
      return certificate?.release === 'proven';
    },
  },
];
