/** Attacks by a machine, or by the holder of its credential. */
import { bootReportAttacks } from './node/boot-report.ts';
import { forgedFactAttacks } from './node/forged-facts.ts';
import { replacedKeyAttacks } from './node/replaced-key.ts';
import { describeAttacks } from './support/attack.ts';

describeAttacks('node', [...forgedFactAttacks, ...replacedKeyAttacks, ...bootReportAttacks]);
