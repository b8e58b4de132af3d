/**
 * The threat model as data: seven attackers, what each can and cannot do, and the tests that show
 * it. `bin/run scripts/generate-threat-model.ts` writes it into SECURITY.md; threat-model.test.ts
 * checks the page and the named tests.
 */
import { joinTokenHolder } from './threat-model/join-token-holder.ts';
import type { Attacker } from './threat-model/lines.ts';
import { nobody } from './threat-model/nobody.ts';
import { node } from './threat-model/node.ts';
import { operator } from './threat-model/operator.ts';
import { relay } from './threat-model/relay.ts';
import { tenant } from './threat-model/tenant.ts';
import { webPage } from './threat-model/web-page.ts';

export const attackers: Attacker[] = [nobody, tenant, node, joinTokenHolder, relay, operator, webPage];
