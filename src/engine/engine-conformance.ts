/** The conformance suite that every engine adapter passes. */
import { afterEach, describe } from 'vitest';
import { describeCancel } from './conformance/cancel.ts';
import { type Adapter, closeAll } from './conformance/harness.ts';
import { describeRecovery } from './conformance/recovery.ts';
import { describeSteps } from './conformance/steps.ts';
import { describeWaits } from './conformance/waits.ts';

export function describeEngine(adapter: Adapter): void {
  describe(`engine on ${adapter.name}`, () => {
    afterEach(closeAll);
    describeSteps(adapter);
    describeWaits(adapter);
    describeCancel(adapter);
    describeRecovery(adapter);
  });
}
