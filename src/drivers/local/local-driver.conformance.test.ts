import { describeDriver } from '../conformance.ts';
import { localWorld } from './testing/local-world.ts';

describeDriver('local', () => localWorld());
