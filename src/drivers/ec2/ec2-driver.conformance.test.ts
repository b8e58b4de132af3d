import { ec2World } from '../../../test/support/ec2/ec2-world.ts';
import { describeDriver } from '../conformance.ts';

describeDriver('ec2', ec2World);
