/**
 * Whoever looks after a relay learns from its log that machines behind it are not heard because of its token: once for each reason, not with
 * every batch. What else may be wrong with a beat is its own agent's to know.
 */
import type { Log } from '../base/telemetry/log.ts';
import { type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';
import type { Refusal } from './gatherer.ts';

const becauseOfUs: ErrorCode = 'scope_insufficient';
/** One for each pool behind it; more would be somebody who makes them up. */
const mostReasons = 100;

export function tellRefused(log: Pick<Log, 'error'>): (refusal: Refusal) => void {
  const told = new Set<string>();
  return ({ code, detail }) => {
    if (code !== becauseOfUs || told.has(detail) || told.size >= mostReasons) return;
    told.add(detail);
    log.error({ why: detail, way_out: errorCatalogue[becauseOfUs].remedy }, 'beats are refused');
  };
}
