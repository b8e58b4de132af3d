/** `housekeeping`: forgets idempotency keys whose day is over. */
import { forgetOldKeys } from '../store/idempotency.ts';
import type { SweepServices } from './services.ts';
import type { Sweep } from './sweep.ts';

export const housekeeping = ({ db }: SweepServices): Sweep => ({
  name: 'housekeeping',
  every_seconds: 600,
  run: async (now) => ({ decided: await forgetOldKeys(db, now) }),
});
