/** Attacks by the holder of a relay token. */
import { unprovenBeatAttacks } from './relay/unproven-beats.ts';
import { describeAttacks } from './support/attack.ts';

describeAttacks('relay', [...unprovenBeatAttacks]);
