/**
 * The threat model as data: seven attackers, what each can and cannot do, and the test that shows each line. SECURITY.md holds
 * it as tables (`node scripts/generate-threat-model.ts`); threat-model.test.ts checks the page and the tests it names.
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
