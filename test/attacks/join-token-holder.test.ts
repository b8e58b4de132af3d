/** Attacks by the holder of a join token of a pool: valid, expired or spent. */
import { knownNameAttacks } from './join-token-holder/known-names.ts';
import { forgedSourceAttacks, liveNameAttacks } from './join-token-holder/live-names.ts';
import { otherTokenAttacks } from './join-token-holder/other-tokens.ts';
import { probeAttacks, smallAllowance, smallAllowanceProbeAttacks } from './join-token-holder/probes.ts';
import { requestRateAttacks } from './join-token-holder/request-rates.ts';
import { behindDistantProxy } from './nobody/forwarded.ts';
import { describeAttacks } from './support/attack.ts';
import { tightLimits } from './support/floods.ts';

describeAttacks('join-token-holder', [...knownNameAttacks, ...liveNameAttacks, ...otherTokenAttacks, ...probeAttacks]);
describeAttacks('join-token-holder with tight limits', requestRateAttacks, tightLimits);
describeAttacks('join-token-holder with a small allowance', smallAllowanceProbeAttacks, smallAllowance);
describeAttacks('join-token-holder behind a proxy', forgedSourceAttacks, behindDistantProxy);
