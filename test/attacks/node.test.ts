/** Attacks by a machine, or by the holder of its credential. */
import { bootReportAttacks } from './node/boot-report.ts';
import { concurrentWriteAttacks } from './node/concurrent-writes.ts';
import { floodAttacks } from './node/floods.ts';
import { forgedFactAttacks } from './node/forged-facts.ts';
import { logBombAttacks, smallLogs } from './node/log-bomb.ts';
import { lostCredentialAttacks } from './node/lost-credential.ts';
import { replacedKeyAttacks } from './node/replaced-key.ts';
import { retiredTaskKeyAttacks, shortOverlap } from './node/retired-task-key.ts';
import { oldCredentialAttacks, stolenCredentialAttacks } from './node/stolen-credential.ts';
import { describeAttacks } from './support/attack.ts';
import { tightLimits } from './support/floods.ts';

describeAttacks('node', [...forgedFactAttacks, ...replacedKeyAttacks, ...bootReportAttacks, ...oldCredentialAttacks]);
describeAttacks('node of a restored server', lostCredentialAttacks);
describeAttacks('node with a small log', logBombAttacks, smallLogs);
describeAttacks('node with a copied credential', stolenCredentialAttacks, ['--credential-seconds', '2']);
describeAttacks('node under a short overlap of task keys', retiredTaskKeyAttacks, shortOverlap);
describeAttacks('node with tight limits', [...floodAttacks, ...concurrentWriteAttacks], tightLimits);
