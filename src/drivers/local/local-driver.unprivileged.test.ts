/**
 * Runs the conformance suite as an unprivileged user, because root would not notice missing
 * permissions.
 */
import { becomePlainUser } from '../../../test/support/run/plain-user.ts';
import { describeDriver } from '../conformance.ts';
import { localWorld } from './testing/local-world.ts';

becomePlainUser();
describeDriver('local', () => localWorld(), { may_hang: false });
