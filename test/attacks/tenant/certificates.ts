/** A tenant asks for the release certificate of another tenant. */
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

export const certificatesAttacks: Attack[] = [
  {
    name: "chain: fetches the release certificate of another tenant's allocation",
    without: [
      {
        file: 'src/api/routes/certificates.ts',
        find: '!canSee(visibility, allocation.tenant)',
        replace: 'false',
      },
    ],
    async succeeds({ client, as }) {
      await client.call('pool-put', { params: { pool: 'certified' }, body: { driver: 'external' } });
      const createToken = async (tenant: string) => {
        const reply = await client.call('token-create', { body: { name: tenant, role: 'admin', tenant } });
        return reply.token ?? '';
      };
      const victim = as(await createToken('victim'));
      const { allocation } = await victim.call('allocation-create', { body: { pool: 'certified' } });
      const id = allocation.allocation_id;
      await client.call('allocation-release', { params: { id }, body: { reason: 'for a test' } });
      // The admin can fetch the certificate, so it exists.
      await until('the certificate to be issued', () =>
        client.call('allocation-certificate', { params: { id } }).catch(() => undefined),
      );
      const attacker = as(await createToken('attacker'));
      const certificate = await attacker.call('allocation-certificate', { params: { id } }).catch(() => undefined);
      return certificate?.tenant === 'victim';
    },
  },
];
