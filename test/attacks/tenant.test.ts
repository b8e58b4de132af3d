/** Attacks by a tenant: with its token, and from the machines that its allocations have or had. */
import { describeAttacks } from './support/attack.ts';
import { tightLimits } from './support/floods.ts';
import { certificatesAttacks } from './tenant/certificates.ts';
import { concurrentWriteAttacks } from './tenant/concurrent-writes.ts';
import { debtAttacks } from './tenant/debts.ts';
import { crowdFloodAttacks, floodAttacks, smallTotal } from './tenant/floods.ts';
import { formerTenantAttacks } from './tenant/former-tenant.ts';
import { logSearchAttacks } from './tenant/log-search.ts';
import { secretGuessAttacks } from './tenant/secret-guesses.ts';
import { tenantSessionAttacks } from './tenant/sessions.ts';
import { streamAttacks } from './tenant/streams.ts';
import { visibilityAttacks } from './tenant/visibility.ts';

describeAttacks('tenant', [
  ...certificatesAttacks,
  ...formerTenantAttacks,
  ...logSearchAttacks,
  ...secretGuessAttacks,
  ...streamAttacks,
  ...tenantSessionAttacks,
  ...visibilityAttacks,
]);
describeAttacks('tenant with tight limits', [...floodAttacks, ...concurrentWriteAttacks, ...debtAttacks], tightLimits);
describeAttacks('tenant where all callers have little', crowdFloodAttacks, smallTotal);
