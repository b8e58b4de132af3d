/** A tenant asks for the release certificates of others. */
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

export const certificatesAttacks: Attack[] = [
  {
    name: "chain: fetches the release certificate of another tenant's allocation",
    without: [
      {
        file: 'src/api/routes/certificates.ts',
        find: '!canSee(person().visibility, allocation.tenant)',
        replace: 'false',
      },
    ],
    async succeeds({ client, as }) {
      await client.call('pool-put', { params: { pool: 'certified' }, body: { driver: 'external' } });
      const tokenOf = async (tenant: string) => {
        const made = await client.call('token-create', { body: { name: tenant, role: 'admin', tenant } });
        return made.token ?? '';
      };
      const victim = as(await tokenOf('victim'));
      const { allocation } = await victim.call('allocation-create', { body: { pool: 'certified' } });
      const id = allocation.allocation_id;
      await client.call('allocation-release', { params: { id }, body: { reason: 'for a test' } });
      // The operator gets it, so it exists.
      await until('the certificate to be issued', () =>
        client.call('allocation-certificate', { params: { id } }).catch(() => undefined),
      );
      const attacker = as(await tokenOf('attacker'));
      const stolen = await attacker.call('allocation-certificate', { params: { id } }).catch(() => undefined);
      return stolen?.tenant === 'victim';
    },
  },
];
