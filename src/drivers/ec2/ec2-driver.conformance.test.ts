import { ec2Fixture } from '../../../test/support/ec2/ec2-fixture.ts';
import { describeDriver } from '../conformance.ts';

describeDriver('ec2', ec2Fixture);
