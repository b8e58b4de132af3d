/** Starts a bulk recovery, which callers then follow as an operation. */
import { now } from '../../base/clock.ts';
import { requestRecovery } from '../../operations/recovery/recovery-request.ts';
import { readOperation } from '../../store/operations/operations.ts';
import type { Handlers } from '../services.ts';
import { callerOf } from './allocations.ts';

export const recoveryHandlers: Pick<Handlers, 'fleet-recover'> = {
  async 'fleet-recover'(call, services) {
    const { workflow_id, ...result } = await requestRecovery(services, call.body, callerOf(call, call.body.reason));
    const operation =
      workflow_id && (await readOperation(services.db, workflow_id, call.person().visibility, now(services.clock)));
    return { dry_run: call.body.dry_run ?? false, ...result, operation: operation || null };
  },
};
