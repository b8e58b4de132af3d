/** Starts a bulk recovery, or previews it with `dry_run`. */
import { act, type BodyOf } from '../client.ts';

export type RecoveryRequest = BodyOf<'fleet-recover'>;

export const recover = (body: RecoveryRequest, idempotency_key: string) =>
  act('fleet-recover', { body, idempotency_key });
