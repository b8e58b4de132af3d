/** As a plain user, also where the tests are run by root: whoever may do anything would not notice what the driver may not. Its other tests run as whoever runs them. */
import { becomePlainUser } from '../../../test/support/run/plain-user.ts';
import { describeDriver } from '../conformance.ts';
import { localWorld } from './testing/local-world.ts';

becomePlainUser();
describeDriver('local', () => localWorld(), { may_hang: false });
