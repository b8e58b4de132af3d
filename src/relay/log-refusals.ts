/**
 * Logs, once per reason, that heartbeats are refused because of the relay's token. Other refusals
 * are for the agent to handle.
 */
import type { Log } from '../base/telemetry/log.ts';
import { type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';
import type { Refusal } from './batcher.ts';

const tokenRefusal: ErrorCode = 'scope_insufficient';
/** One reason per pool; the bound guards against made-up ones. */
const maxReasons = 100;

export function logRefusals(log: Pick<Log, 'error'>): (refusal: Refusal) => void {
  const logged = new Set<string>();
  return ({ code, detail }) => {
    if (code !== tokenRefusal || logged.has(detail) || logged.size >= maxReasons) return;
    logged.add(detail);
    log.error({ why: detail, way_out: errorCatalogue[tokenRefusal].remedy }, 'beats are refused');
  };
}
