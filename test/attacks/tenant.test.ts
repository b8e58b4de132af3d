/** Attacks by a tenant: its token, and the machines that its allocations have or had. */
import { describeAttacks } from './support/attack.ts';
import { formerTenantAttacks } from './tenant/former-tenant.ts';
import { logSearchAttacks } from './tenant/log-search.ts';
import { streamAttacks } from './tenant/streams.ts';

describeAttacks('tenant', [...formerTenantAttacks, ...streamAttacks, ...logSearchAttacks]);
describeAttacks('tenant', [...formerTenantAttacks, ...streamAttacks]);

import { tenantSessionAttacks } from './tenant/sessions.ts';

describeAttacks('tenant', [...formerTenantAttacks, ...tenantSessionAttacks]);
