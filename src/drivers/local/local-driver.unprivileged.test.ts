/**
 * Runs the conformance suite as an unprivileged user, because root would not notice missing
 * permissions.
 */
import { becomePlainUser } from '../../../test/support/run/plain-user.ts';
import { describeDriver } from '../conformance.ts';
import { localFixture } from './testing/local-fixture.ts';

becomePlainUser();
describeDriver('local', () => localFixture(), { may_hang: false });
