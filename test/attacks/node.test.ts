/** Attacks by a machine, or by the holder of its credential. */
import { replacedKeyAttacks } from './node/replaced-key.ts';
import { describeAttacks } from './support/attack.ts';

describeAttacks('node', [...replacedKeyAttacks]);
