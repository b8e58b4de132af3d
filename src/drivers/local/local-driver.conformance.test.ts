import { describeDriver } from '../conformance.ts';
import { localWorld } from './local-world.ts';

describeDriver('local', () => localWorld());
