/** The conformance suite that every engine adapter passes. */
import { afterEach, describe } from 'vitest';
import { cancelConforms } from './conformance/cancel.ts';
import { type Adapter, closeAll } from './conformance/harness.ts';
import { recoveryConforms } from './conformance/recovery.ts';
import { stepsConform } from './conformance/steps.ts';
import { waitsConform } from './conformance/waits.ts';

export function engineConforms(adapter: Adapter): void {
  describe(`engine on ${adapter.name}`, () => {
    afterEach(closeAll);
    stepsConform(adapter);
    waitsConform(adapter);
    cancelConforms(adapter);
    recoveryConforms(adapter);
  });
}
