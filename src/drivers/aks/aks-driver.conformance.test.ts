import { afterAll } from 'vitest';
import { aksFixture } from '../../../test/support/arm/aks-fixture.ts';
import { startArm } from '../../../test/support/arm/arm.ts';
import { describeDriver } from '../conformance.ts';

const arm = await startArm();
afterAll(() => arm.stop());

describeDriver('aks', async () => aksFixture(arm));
