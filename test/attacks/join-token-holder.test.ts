/** Attacks by somebody who holds a join token of a pool: valid, expired or spent. */
import { knownNameAttacks } from './join-token-holder/known-names.ts';
import { otherTokenAttacks } from './join-token-holder/other-tokens.ts';
import { describeAttacks } from './support/attack.ts';

describeAttacks('join-token-holder', [...knownNameAttacks, ...otherTokenAttacks]);
