/** Attacks by a tenant: its token, and the machines that its allocations have or had. */
import { describeAttacks } from './support/attack.ts';
import { certificatesAttacks } from './tenant/certificates.ts';
import { formerTenantAttacks } from './tenant/former-tenant.ts';
import { logSearchAttacks } from './tenant/log-search.ts';
import { tenantSessionAttacks } from './tenant/sessions.ts';
import { streamAttacks } from './tenant/streams.ts';

describeAttacks('tenant', [
  ...certificatesAttacks,
  ...formerTenantAttacks,
  ...logSearchAttacks,
  ...streamAttacks,
  ...tenantSessionAttacks,
]);
