/** Explains why an id has no row: whether retention deleted the row, and by which setting. */
import { now, secondsBetween } from '../../../base/clock.ts';
import { creationTimeOf, kindOfId } from '../../../base/ids.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { RetentionSetting } from '../../../lifecycle/limits/retention-classes.ts';
import type { Visibility } from '../../../lifecycle/visibility.ts';
import { readPruneRecord } from '../../../store/retention/pruned.ts';
import type { ApiServices } from '../../services.ts';

const formatDays = (seconds: number) => `${Math.round(seconds / 86_400)} days`;
const formatRetention = (setting: RetentionSetting, seconds: number) =>
  `${formatDays(seconds)} after their end (retention.keep_seconds.${setting})`;

/** The problem for a node or allocation that has no row, or that the caller may not see. */
export async function notFoundProblem(
  noun: 'node' | 'allocation',
  id: string,
  visibility: Visibility,
  { db }: Pick<ApiServices, 'db'>,
): Promise<ApiProblem> {
  const code = `${noun}_not_found` as const;
  const pruneRecord = await readPruneRecord(db, noun, id, visibility);
  if (!pruneRecord) return new ApiProblem(code);
  const { retention, keep_seconds, ended_at, deleted_at } = pruneRecord;
  return new ApiProblem(
    code,
    `This ${noun} ended ${ended_at}, and retention deleted it ${deleted_at.toISOString()}: ${noun}s are kept for ${formatRetention(retention, keep_seconds)}.`,
  );
}

/**
 * The problem for an operation without a row. The time in the id shows whether retention may have
 * deleted the row.
 */
export function operationNotFoundProblem(
  id: string,
  { clock, environment }: Pick<ApiServices, 'clock' | 'environment'>,
): ApiProblem {
  const { operations } = environment.retention.keep_seconds;
  const createdAt = kindOfId(id) === 'workflow' ? creationTimeOf(id) : undefined;
  if (!createdAt || secondsBetween(createdAt, now(clock)) < operations) return new ApiProblem('operation_not_found');
  return new ApiProblem(
    'operation_not_found',
    `There is no such operation. Its id is from ${createdAt.toISOString()}, and operations are kept for ${formatRetention('operations', operations)}.`,
  );
}
